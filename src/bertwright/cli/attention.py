"""`bertwright attention`: attention maps of one text, or measures of heads over many texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertwright.atomic import refuse_existing
from bertwright.cli.options import Device, Json, Overwrite
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
        limit: Maximum number of texts of --corpus to read.
    """
    if bool(texts) == (corpus is not None) or len(texts) > 2:
        raise ConfigError(
            f"{counted(len(texts), 'text')} and {'a' if corpus is not None else 'no'} corpus; "
            "expected one text or two, or else --corpus FILE"
        )
    if texts and out is None and not json:
        raise ConfigError("where to? name a page by --out FILE.html, or print numbers by --json")
    if corpus is not None and out is not None:
        raise ConfigError("--out is the page of one text; leave it out with --corpus")
    if limit < 1:
        raise ConfigError(f"limit is {limit}; expected 1 or more")
    refuse_suffix(out, *PAGE)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    from bertwright.inference.model import load

    loaded = load(model, device)
    if corpus is not None:
        found = _measure(loaded.runner, corpus, limit)
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


def _measure(runner: ModelRunner, corpus: str, limit: int) -> dict[str, Any]:
    """Return the measures of every head, as `--json` prints them."""
    from bertwright.inference.attention.measures import measure_heads
    from bertwright.inference.files.texts import open_texts

    rows = (text for text, _ in open_texts(corpus, option="--corpus").rows)
    with bar("Measuring", "texts") as on_progress:
        heads = measure_heads(runner, rows, limit, on_progress)
    means = {name: x.tolist() for name, x in heads.means().items()}
    return {"model": runner.name, "heads": {"texts": heads.texts, "tokens": heads.tokens, **means}}


def _show(found: dict[str, Any]) -> None:
    heads = dict(found["heads"])
    read = f"{counted(heads.pop('texts'), 'text')}, {counted(heads.pop('tokens'), 'token')}"
    title = f"{read}: distance in tokens, entropy in nats, fraction of attention to each"
    cells = [
        [f"{layer + 1}-{head + 1}", *(float(f"{x[layer][head]:.3f}") for x in heads.values())]
        for layer, of_layer in enumerate(heads["distance"])
        for head in range(len(of_layer))
    ]
    print_table(["head", *heads], cells, title)
