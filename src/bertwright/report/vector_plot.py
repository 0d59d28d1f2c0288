"""Texts as dots on one page, near where their vectors are near: PCA or t-SNE, coloured by a column.

PCA keeps distances along the two directions of most variance; t-SNE (van der Maaten and Hinton
2008) keeps neighbours; its distances mean nothing. One HTML file, no script: who cannot point at
a mark, or cannot see it, has a table of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from bertwright.arrays import Float32s
from bertwright.errors import DataError

COLORS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#9498a0",
)  # fmt: skip
SIZE, EDGE = 720, 16
SHOWN, NAMED = 120, 40
"""Characters of a text that a mark shows, and of a value in the legend."""
MOST = 20_000
"""Dots: more make a page that browsers cannot scroll."""
_NOISE = 1e-5
"""Differences below this fraction of the largest number are float32's rounding."""


def project(
    vectors: Float32s, how: Literal["pca", "tsne"] = "pca"
) -> tuple[Float32s, list[tuple[str, str]]]:
    """Vectors on a plane.

    Args:
        vectors: `[n, W]`.
        how: the method; the same vectors give the same plane.

    Returns:
        `[n, 2]`, and facts about it as (figure, name).

    Raises:
        DataError: fewer than three texts, more than `MOST`, or numbers that are not finite.
    """
    if not 3 <= len(vectors) <= MOST:
        raise DataError(f"{len(vectors):,} texts; a plot takes 3 to {MOST:,}: draw a sample")
    if not np.isfinite(vectors).all():
        raise DataError("some vectors hold numbers that are not finite; they cannot be plotted")
    facts = [(f"{len(vectors):,}", "texts"), (f"{vectors.shape[1]:,}", "numbers a vector")]
    mean = vectors.mean(0)
    if np.abs(vectors - mean).max() <= _NOISE * np.abs(mean).max():
        points = np.zeros((len(vectors), 2), np.float32)
        return points, [*facts, ("0", "directions: all vectors are the same")]
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    pca = PCA(min(50, *vectors.shape), random_state=0)
    reduced = pca.fit_transform(vectors)
    if reduced.shape[1] == 1:
        reduced = np.pad(reduced, ((0, 0), (0, 1)))
    if how == "pca":
        points = np.asarray(reduced[:, :2], np.float32)
        ratio = float(pca.explained_variance_ratio_[:2].sum())
        return points, [*facts, (f"{ratio:.0%}", "of variance on this plane (PCA)")]
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=0)
    with threadpool_limits(1):  # a thousand short steps: beside other work threads wait for minutes
        points = np.asarray(tsne.fit_transform(reduced), np.float32)
    meaning = "perplexity (t-SNE): near are neighbours, far means nothing"
    return points, [*facts, (f"{perplexity:.0f}", meaning)]


def dots_of(
    points: Float32s, texts: Sequence[str], values: Sequence[str], column: str | None
) -> dict[str, Any]:
    """The variables of the macros in `dots.html.j2`.

    Args:
        points: `[n, 2]`.
        texts: n, shown when a mark is pointed at.
        values: n, of the column that colours; those beyond the nine most frequent share a colour.
        column: its name, if there is one.
    """
    counts = Counter(values)
    *own_colors, others = COLORS
    frequent = [each for each, _ in counts.most_common(len(own_colors))]
    colors = dict(zip(frequent, own_colors, strict=False))
    legend = [(_truncated(each, NAMED), color, counts[each]) for each, color in colors.items()]
    if rest := len(values) - sum(count for _, _, count in legend):
        legend.append(("others", others, rest))
    low, high = points.min(0), points.max(0)
    scale = (SIZE - 2 * EDGE) / max(float((high - low).max()), 1e-9)
    coordinates = EDGE + (points - low) * scale
    width, height = (2 * EDGE + (high - low) * scale).tolist()
    dots: list[dict[str, Any]] = [
        {
            "x": x,
            "y": height - y,
            "color": colors.get(value, others),
            "text": _truncated(text, SHOWN) or "(empty)",
            "value": _truncated(value, NAMED),
            "title": _truncated(text, SHOWN)
            + ("" if column is None else f" ({column}: {_truncated(value, SHOWN)})"),
        }
        for (x, y), text, value in zip(coordinates.tolist(), texts, values, strict=True)
    ]
    return {
        "column": column,
        "legend": legend,
        "width": width,
        "height": height,
        "size": 4 if len(points) < 1000 else 2.5,
        "dots": dots,
    }


def _truncated(value: str, most: int) -> str:
    return value if len(value) <= most else value[: most - 3] + "..."
