"""`bertwright senses`: how well a word's vectors separate its senses, by model and layer."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertwright.atomic import refuse_existing
from bertwright.cli.options import Device, Json, Overwrite
from bertwright.cli.output import PAGE, counted, print_json, print_table, refuse_suffix
from bertwright.console import bar, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.arrays import Float32s


def senses(
    file: Path | None = None,
    *,
    model: list[str],
    word: list[str] | None = None,
    layer: int | None = None,
    clusters: int = 2,
    out: Path | None = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show how well each layer of a model separates the senses of a word.

    Args:
        file: File with the columns word, sense and sentence, separated by tabs; or with one
            sentence per line, with --word; unset: 400 built-in sentences with 20 words.
        model: A run, a checkpoint or a folder of a model; may be given several times.
        word: Word to look at; may be given several times; unset: all.
        layer: Layer of the clusters and the page; unset: each model's best, or its last if the
            senses are not known.
        clusters: Number of clusters of each word's sentences if the senses are not known.
        out: HTML page to write: the sentences of each word as dots, for each model.
    """
    refuse_suffix(out, *PAGE)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(*model)
    from bertwright.inference.model import load
    from bertwright.inference.senses import (
        cluster_words,
        read_usages,
        rows_of_words,
        score_words,
        vectors_of_usages,
    )
    from bertwright.rows.lines import ByteCounts

    counts = ByteCounts()
    usages = read_usages(file, word or (), counts)
    for remark in counts.byte_remarks():
        say(f"{file}: {remark}")
    known = bool(usages[0].sense)
    found: list[dict[str, Any]] = []
    chosen: list[Float32s] = []
    for name in model:
        loaded = load(name, device)
        depth = loaded.spec.depth
        if layer is not None and not 0 <= layer <= depth:
            raise ConfigError(f"layer is {layer}; {name} has {depth}: expected 0 to {depth}")
        with bar(f"Reading {name}", "layers") as on_progress:
            layers = vectors_of_usages(loaded, usages, on_progress)
        row: dict[str, Any] = {"model": name, "layer": depth if layer is None else layer}
        if known:
            scores = score_words(layers, usages)
            row["accuracy"], row["agreement"] = scores.mean(1).T.tolist()
            by_word = scores[:, :, 0].T.tolist()
            row["words"] = dict(zip(rows_of_words(usages), by_word, strict=True))
            if layer is None:
                row["layer"] = row["accuracy"].index(max(row["accuracy"]))
        found.append(row)
        chosen.append(layers[row["layer"]])
    groups = [cluster_words(vectors, usages, clusters) for vectors in chosen]
    if out is not None:
        from bertwright.report.pages import write_page
        from bertwright.report.senses_page import senses_page

        write_page(out, senses_page(found, chosen, usages))
        words = counted(len({u.word for u in usages}), "word")
        say(f"{out}: {words}, {counted(len(found), 'model')}")
    if json:
        rows = [{**vars(u), "clusters": [g[n] for g in groups]} for n, u in enumerate(usages)]
        print_json({"models": found, "sentences": rows})
        return
    if known:
        _show_accuracy(found)
    if not known or word:
        names = ["sentence", "sense"] if known else ["sentence"]
        models = [f"{row['model']}, layer {row['layer']}" for row in found]
        cells = [
            [*(getattr(u, name) for name in names), *(g[n] + 1 for g in groups)]
            for n, u in enumerate(usages)
        ]
        print_table([*names, *models], cells, "The cluster of each sentence, by model")


def _show_accuracy(found: list[dict[str, Any]]) -> None:
    cells = [
        [f"{a:.1%} ({b:.2f})" for a, b in zip(row["accuracy"], row["agreement"], strict=True)]
        for row in found
    ]
    rows = [[layer, *own] for layer, own in enumerate(zip_longest(*cells, fillvalue=""))]
    print_table(
        ["layer", *(row["model"] for row in found)],
        rows,
        f"Accuracy on senses by layer, mean of {len(found[0]['words'])} words (in brackets: "
        "agreement of clusters)",
    )
