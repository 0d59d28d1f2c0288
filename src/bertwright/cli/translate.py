"""`bertwright translate`: translate texts with a translation model, and compute its BLEU."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

from bertwright.atomic import refuse_existing
from bertwright.cli.options import (
    EVERY_KEY,
    ConfigFile,
    Device,
    Json,
    Overwrite,
    TextColumn,
    given_texts,
)
from bertwright.cli.output import counted, line_by_line, print_fields, print_json
from bertwright.config.generation import TranslationConfig
from bertwright.config.task import BleuTokenize
from bertwright.console import bar, say
from bertwright.errors import ConfigError


def translate(
    *texts: str,
    model: str,
    input: str | None = None,
    reference: str | None = None,
    out: Path | None = None,
    text: TextColumn = None,
    bleu_tokenize: BleuTokenize = "auto",
    config: Annotated[TranslationConfig, EVERY_KEY] = TranslationConfig(),
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Translate texts with a model that was trained on pairs of sentences.

    Translations are written in the order of the texts, as soon as they are complete, so that an
    interrupted run keeps what was written. Blank lines stay as they are.

    Args:
        texts: Texts to translate, one sentence each.
        model: A run, a checkpoint or a folder of a translation model.
        input: File of texts: a column of .jsonl, .csv, .tsv or .parquet, else one per line; - for
            standard input.
        reference: File of reference translations, one for each line of --input: print BLEU and
            chrF.
        bleu_tokenize: sacreBLEU's tokenizer; auto: zh for Chinese, char for Japanese and other
            scripts without blanks, else 13a.
        out: File to write, one translation per line, as JSON objects if its name ends in .jsonl;
            unset: print.
        precision: Precision of the weights; auto: bf16 if the hardware multiplies it faster.
    """
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    groups, total = given_texts(texts, input, text)
    if reference is not None and (input is None or text is not None):
        raise ConfigError("--reference is of the lines of a file: name that with --input")
    refuse_existing(out, overwrite)
    references: list[str] = []
    if reference is not None and input is not None:
        from bertwright.data.parallel.build import read_pairs

        _, sources, given = zip(*read_pairs(Path(input), Path(reference)), strict=True)
        total, references = len(sources), list(given)
    from bertwright.inference.encode import chunks
    from bertwright.inference.model import load
    from bertwright.inference.translation import translate as translation

    if reference is not None:
        translation.bleu_for(references, bleu_tokenize)  # finds a missing package early
        groups = chunks(iter(sources), translation.TEXTS)
    loaded = load(model, device, precision)
    if reference is not None:
        translation.require_direction(loaded.runner, list(sources), references)
    prints = out is None and reference is None
    lines = line_by_line(out, prints and not json)
    found = []
    with bar("Translating", "texts") as on_progress, lines as write:
        for each in translation.translate(loaded.runner, groups, config):
            found.append(asdict(each))
            as_object = out is not None and out.suffix == ".jsonl"
            line = " ".join(each.text.splitlines())  # a byte-level model may generate a newline
            write(dumps(found[-1], ensure_ascii=False) if as_object else line)
            on_progress(len(found), total)
    translations = [each["text"] for each in found]
    figures = {}
    if reference is not None:
        figures = translation.evaluate_translations(translations, references, bleu_tokenize)
    if json and prints:
        print_json({"translations": found})
    elif json:
        print_json({"out": out, "texts": len(found), **figures})
    else:
        if out is not None:
            say(f"{counted(len(found), 'text')} translated in {out}")
        print_fields(figures)
