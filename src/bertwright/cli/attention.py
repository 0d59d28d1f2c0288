"""`bertwright attention`: attention maps of one text, or measures of heads over many texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertwright.atomic import refuse_existing
from bertwright.cli.options import Device, Flag, Json, Overwrite
from bertwright.cli.output import PAGE, counted, print_json, print_table, refuse_suffix
from bertwright.console import bar, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.inference.encode import ModelRunner


def attention(
    *texts: str,
    model: str,
    out: Path | None = None,
    corpus: str | None = None,
    treebank: Path | None = None,
    coreference: Flag = False,
    limit: int = 1000,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show attention by layer and head: for one text as an HTML page, for a corpus as a table.

    Args:
        texts: One text, or two: a pair, or a source and its translation.
        model: A run, a checkpoint or a Hugging Face folder.
        out: HTML page to write: an overview of all heads, and each head in detail.
        corpus: File of texts on which every head is measured: a column of .jsonl, .csv, .tsv or
            .parquet, else one text per line.
        treebank: File or folder of bracketed trees, on which the best head for each syntactic
            relation is found.
        coreference: Find the head that best links the pronouns it and its to their nouns, on 40
            built-in sentences.
        limit: Maximum number of texts of --corpus, and of sentences of --treebank, to read.
    """
    measured = corpus is not None or treebank is not None or coreference
    if bool(texts) == measured or len(texts) > 2:
        raise ConfigError(
            f"{counted(len(texts), 'text')} and {'some' if measured else 'no'} measure; expected "
            "one text or two, or else --corpus FILE, --treebank FILE or --coreference"
        )
    if texts and out is None and not json:
        raise ConfigError("where to? name a page by --out FILE.html, or print numbers by --json")
    if measured and out is not None:
        raise ConfigError("--out is the page of one text; leave it out with measures")
    if limit < 1:
        raise ConfigError(f"limit is {limit}; expected 1 or more")
    refuse_suffix(out, *PAGE)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    from bertwright.inference.model import load

    loaded = load(model, device)
    if measured:
        found = _measure(loaded.runner, corpus, treebank, coreference, limit)
        print_json(found) if json else _show(found)
        return
    maps = loaded.attention(texts[0] if len(texts) == 1 else (texts[0], texts[1]))
    if out is not None:
        from bertwright.report.attention_page import attention_page
        from bertwright.report.pages import write_page

        write_page(out, attention_page(maps, model))
        say(f"{out}: attention of {', '.join(each.name for each in maps)}")
    if json:
        print_json({"model": model, "maps": [vars(each) for each in maps]})


def _measure(
    runner: ModelRunner, corpus: str | None, treebank: Path | None, coreference: bool, limit: int
) -> dict[str, Any]:
    """Return the measures of every head, as `--json` prints them."""
    from bertwright.inference.attention.coreference import score_coreference
    from bertwright.inference.attention.measures import measure_heads
    from bertwright.inference.attention.syntax import score_syntax
    from bertwright.inference.files.texts import open_texts
    from bertwright.text.treebank.dependencies import dependencies_of
    from bertwright.text.treebank.trees import read_trees

    found: dict[str, Any] = {"model": runner.name}
    if corpus is not None:
        rows = (text for text, _ in open_texts(corpus, option="--corpus").rows)
        with bar("Measuring", "texts") as on_progress:
            heads = measure_heads(runner, rows, limit, on_progress)
        means = {name: x.tolist() for name, x in heads.means().items()}
        found["heads"] = {"texts": heads.texts, "tokens": heads.tokens, **means}
    if treebank is not None:
        with bar("Parsing", "sentences") as on_progress:
            sentences, best = score_syntax(
                runner, map(dependencies_of, read_trees(treebank)), limit, on_progress=on_progress
            )
        relations = {name: vars(each) for name, each in best.items()}
        found["syntax"] = {"sentences": sentences, "relations": relations}
    if coreference:
        found["coreference"] = vars(score_coreference(runner))
    return found


def _show(found: dict[str, Any]) -> None:
    if "heads" in found:
        heads = dict(found["heads"])
        read = f"{counted(heads.pop('texts'), 'text')}, {counted(heads.pop('tokens'), 'token')}"
        title = f"{read}: distance in tokens, entropy in nats, fraction of attention to each"
        cells = [
            [f"{layer + 1}-{head + 1}", *(float(f"{x[layer][head]:.3f}") for x in heads.values())]
            for layer, of_layer in enumerate(heads["distance"])
            for head in range(len(of_layer))
        ]
        print_table(["head", *heads], cells, title)
    syntax = found.get("syntax")
    best = dict(syntax["relations"]) if syntax else {}
    if "coreference" in found:
        best["it, its"] = found["coreference"]
    if best:
        cells = [
            [
                name,
                each["count"],
                f"{each['layer']}-{each['head']}",
                each["direction"],
                f"{each['accuracy']:.1%}",
                f"{each['baseline_accuracy']:.1%}, {each['baseline']}",
            ]
            for name, each in best.items()
        ]
        names = ["relation", "words", "head", "direction", "accuracy", "baseline"]
        print_table(names, cells, counted(syntax["sentences"], "sentence") if syntax else None)
