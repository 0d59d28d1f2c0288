"""Plot texts as dots by their vectors, with PCA or t-SNE, coloured by a column.

PCA preserves distances along the two directions of largest variance. t-SNE (van der Maaten and
Hinton 2008) preserves neighbours, but its distances have no meaning. The page is one HTML file
without scripts, with a table of the texts for users who cannot hover over a mark, or cannot see it.
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
"""The maximum number of characters of the text of a mark, and of a value in the legend."""
MOST = 20_000
"""The maximum number of dots. Browsers cannot scroll a page with more."""
_NOISE = 1e-5
"""Differences below this fraction of the largest value are taken for rounding errors of float32."""


def project(
    vectors: Float32s, how: Literal["pca", "tsne"] = "pca"
) -> tuple[Float32s, list[tuple[str, str]]]:
    """Project vectors onto a plane, and return the points with facts about the projection.

    Args:
        vectors: the vectors, `[n, W]`.
        how: the method; both methods are deterministic.

    Returns:
        The points, `[n, 2]`, and facts about the projection as pairs of a number and its name.

    Raises:
        DataError: there are fewer than three texts or more than `MOST`, or vectors are not finite.
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
    # t-SNE takes a thousand short steps. With several threads on busy cores, these take minutes.
    with threadpool_limits(1):
        points = np.asarray(tsne.fit_transform(reduced), np.float32)
    meaning = "perplexity (t-SNE): near dots are neighbours, large distances mean nothing"
    return points, [*facts, (f"{perplexity:.0f}", meaning)]


def dots_of(
    points: Float32s, texts: Sequence[str], values: Sequence[str], column: str | None
) -> dict[str, Any]:
    """Return the variables of the macros in `dots.html.j2`.

    Args:
        points: the coordinates of the n marks, `[n, 2]`.
        texts: the n texts, which are shown on hovering over a mark.
        values: the n values of the column that sets the colours. All values other than the nine
            most frequent share a colour.
        column: the name of that column, if there is one.
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
