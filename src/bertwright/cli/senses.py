"""`bertwright senses`: a word's vectors in its sentences, by model and layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertwright.atomic import refuse_existing
from bertwright.cli.bars import bar
from bertwright.cli.options import Device, Json, Overwrite
from bertwright.cli.output import counted, print_json, print_table, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.arrays import Float32s
    from bertwright.inference.senses import Usage


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
        file: Columns word, sense and sentence, with tabs between; or sentences, one a line, with
            --word; unset: 400 sentences of ours, of 20 words.
        model: A run, a checkpoint or a folder; several.
        word: Words to look at; unset: all.
        layer: Layer of the clusters and the page; unset: each model's best.
        clusters: Clusters to find where the senses are not known.
        out: HTML page to write: each word's sentences as dots, by model.
    """
    refuse_existing(out, overwrite)
    from bertwright.inference.model import load
    from bertwright.inference.senses import read_usages, score_words, vectors_of_usages

    usages = read_usages(file, word or ())
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
            row["accuracy"] = [_mean(each, "accuracy") for each in scores]
            row["agreement"] = [_mean(each, "agreement") for each in scores]
            row["words"] = {w: [each[w].accuracy for each in scores] for w in scores[0]}
            if layer is None:
                row["layer"] = row["accuracy"].index(max(row["accuracy"]))
        found.append(row)
        chosen.append(layers[row["layer"]])
    groups = [_clusters(vectors, usages, clusters) for vectors in chosen]
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


def _clusters(vectors: Float32s, usages: list[Usage], count: int) -> list[int]:
    """The cluster of each sentence among its word's."""
    from bertwright.inference.senses import cluster, rows_of_words

    found = [0] * len(usages)
    for rows in rows_of_words(usages).values():
        senses = {usages[n].sense for n in rows} - {""}
        numbers = cluster(vectors[rows], len(senses) or count)
        for n, number in zip(rows, numbers, strict=True):
            found[n] = number
    return found


def _mean(scores: dict[str, Any], name: str) -> float:
    return float(sum(getattr(each, name) for each in scores.values()) / len(scores))


def _show_accuracy(found: list[dict[str, Any]]) -> None:
    rows = []
    for layer in range(max(len(row["accuracy"]) for row in found)):
        cells = [
            f"{row['accuracy'][layer]:.1%} ({row['agreement'][layer]:.2f})"
            if layer < len(row["accuracy"])
            else ""
            for row in found
        ]
        rows.append([layer, *cells])
    print_table(
        ["layer", *(row["model"] for row in found)],
        rows,
        f"Accuracy on senses by layer, mean of {len(found[0]['words'])} words (in brackets: "
        "agreement of clusters)",
    )
