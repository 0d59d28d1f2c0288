"""The HTML page of `bertwright senses`: the sentences of each word as dots, for several models side
by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertwright.arrays import Float32s
from bertwright.inference.senses import WordUsage, rows_of_words
from bertwright.report.pages import render
from bertwright.report.plots import Series, chart
from bertwright.report.vector_plot import dots_of, project

_STYLES = "dev", "train", "frozen", "words", "random"


def senses_page(
    found: Sequence[Mapping[str, Any]], vectors: Sequence[Float32s], usages: Sequence[WordUsage]
) -> str:
    """Return the page.

    Args:
        found: for each model, its name as `model`, the `layer` that is drawn and, if senses are
            known, the `accuracy` by layer, and that of each word as `words`.
        vectors: for each model, the vectors of that layer, `[n, H]`.
        usages: the n sentences.
    """
    known = bool(usages[0].sense)
    words = []
    for word, rows in rows_of_words(usages).items():
        plots = []
        for row, of_layer in zip(found, vectors, strict=True):
            texts = [usages[n].sentence for n in rows]
            values = [usages[n].sense for n in rows]
            points, _ = project(of_layer[rows])
            accuracy = row["words"][word][row["layer"]] if known else None
            plots.append(
                {
                    "model": row["model"],
                    "layer": row["layer"],
                    "accuracy": accuracy,
                    "is_point": not points.any(),
                    "dots": dots_of(points, texts, values, "sense" if known else None),
                }
            )
        words.append((word, plots))
    lines = [
        Series(
            row["model"],
            list(range(len(row["accuracy"]))),
            row["accuracy"],
            _STYLES[n % len(_STYLES)],
        )
        for n, row in enumerate(found)
        if known
    ]
    curve = chart("Accuracy, mean of words", lines, "layer", percent=True) if lines else None
    return render("senses.html.j2", heading="Senses of words", words=words, curve=curve)
