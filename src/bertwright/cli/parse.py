"""`bertwright data trees` and `bertwright parse`: shards of a treebank, and parsing sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.atomic import refuse_existing
from bertwright.checkpoint.tokenizer_folder import find_tokenizer
from bertwright.cli.options import Device, Flag, Json, Overwrite, given_texts
from bertwright.cli.output import counted, line_by_line, print_fields, print_json
from bertwright.console import bar, say
from bertwright.errors import ConfigError, DataError


def trees(
    treebank: Annotated[Path, Parameter(name="TREES")],
    *,
    out: Path,
    tokenizer: Path | None = None,
    vocab_size: int = 8000,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn a treebank into shards, to train a parser on.

    Args:
        treebank: A file of bracketed trees, or a folder of these.
        out: Folder to write.
        tokenizer: Folder of a WordPiece tokenizer, as that of a BERT that will be the encoder;
            unset: a vocabulary is trained on the words of the trees.
        vocab_size: Size of the vocabulary if it is trained.
    """
    from bertwright.data.parallel.build import build_trees

    with bar("Reading", "bytes") as on_progress:
        manifest = build_trees(
            treebank,
            out,
            None if tokenizer is None else find_tokenizer(tokenizer),
            vocab_size=vocab_size,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    counts = manifest["counts"]
    if json:
        print_json(
            {
                "out": out,
                "counts": counts,
                "too_long": manifest["too_long"],
                "left_out": manifest["left_out"],
            }
        )
        return
    print(f"{out}: {counted(counts['documents'], 'tree')}, {counted(counts['tokens'], 'token')}")
    for what, number in manifest["left_out"].items():
        print(f"  left out: {number:,} {what}")
    if manifest["too_long"]:
        print(f"  left out as too long: {counted(manifest['too_long'], 'tree')}")
    where = shlex.quote(str(out))
    print(f"Train: bertwright pretrain --model transformer-small --data {where} --out runs/NAME")


def parse(
    *texts: str,
    model: str,
    input: str | None = None,
    reference: Path | None = None,
    words: Flag = False,
    beam: int = 4,
    out: Path | None = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Parse sentences into constituency trees, one per line.

    If the model's output is not a tree over the words of its sentence, it is repaired to one; with
    --json, well_formed says whether a tree needed no repair.

    Args:
        texts: Sentences to parse.
        model: A run or a checkpoint that was trained on trees (data trees).
        input: File of sentences, one per line; - for standard input.
        reference: File or folder of bracketed trees: parse their words, and print the labelled F1
            as evalb computes it.
        words: The words of the sentences are separated by spaces already.
        beam: Number of beams of beam search; 1: greedy.
        out: File to write, one tree per line; unset: print.
    """
    if reference is not None and (texts or input is not None):
        raise ConfigError("--reference is parsed alone: leave out sentences and --input")
    texts_of, total = ((), 0) if reference is not None else given_texts(texts, input)
    if beam < 1:
        raise ConfigError(f"beam is {beam}; expected 1 or more")
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    from bertwright.inference.encode import chunks
    from bertwright.inference.model import load
    from bertwright.inference.translation import parse as parser
    from bertwright.inference.translation.translate import TEXTS
    from bertwright.text.treebank.trees import read_trees
    from bertwright.text.treebank.words import split_sentence

    split = str.split if words else split_sentence
    groups: Iterable[list[list[str]]] = ([split(text) for text in group] for group in texts_of)
    every = [] if reference is None else list(read_trees(reference))
    loaded = load(model, device)
    parser.require_parser(loaded.runner)
    right = [tree for tree in every if parser.reads(loaded.runner, tree.words())]
    if reference is not None:
        if not right:
            raise DataError(
                f"{reference} has {counted(len(every), 'tree')}, and none of a sentence that "
                f"{model} can read: give it shorter ones"
            )
        groups, total = chunks((tree.words() for tree in right), TEXTS), len(right)
    prints = out is None and reference is None
    lines = line_by_line(out, prints and not json)
    found: list[Any] = []
    with bar("Parsing", "sentences") as on_progress, lines as write:
        for each in parser.parse(loaded.runner, groups, beam):
            found.append(each)
            write(str(each.tree) if each.words else "")
            on_progress(len(found), total)
    repaired = sum(not each.well_formed for each in found)
    if right:
        figures = parser.evaluate_parses(
            right, [each.tree for each in found], [each.well_formed for each in found]
        )
        figures["left_out"] = len(every) - len(right)
        if json:
            print_json(figures)
            return
        print_fields(figures)
    elif json and prints:
        print_json({"parses": [{**vars(each), "tree": str(each.tree)} for each in found]})
    elif json:
        print_json({"out": out, "sentences": len(found), "repaired": repaired})
    elif out is not None:
        say(f"{counted(len(found), 'sentence')} parsed in {out}, {repaired} repaired")
