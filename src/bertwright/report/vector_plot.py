"""Texts as dots on one page, near where their vectors are near: PCA or t-SNE, coloured by a column.

PCA keeps distances along the two directions of most variance; t-SNE (van der Maaten and Hinton
2008) keeps neighbours and says nothing of distances. One HTML file, no script: who cannot point at
a mark, or cannot see it, has a table of the texts, each with its nearest on the plane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from bertwright.arrays import Float32s
from bertwright.errors import DataError
from bertwright.report.html import Markup, folded, page, table, text, tiles

COLORS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#9498a0",
)  # fmt: skip
SHAPES = (
    "m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0",
    "m-{r}-{r}h{d}v{d}h-{d}z",
    "m0-{d}l{d} {d}l-{d} {d}l-{d}-{d}z",
)
"""A disc, a square, a diamond: neighbouring colours differ in shape too."""
SIZE, EDGE = 720, 16
SHOWN, NAMED = 120, 40
"""Characters of a text that a dot tells, and of a value in the legend."""
MOST = 20_000
"""Dots: more make a page that browsers cannot scroll."""
_NOISE = 1e-5
"""Differences below this share of the largest number are float32's rounding."""


def project(
    vectors: Float32s, how: Literal["pca", "tsne"] = "pca"
) -> tuple[Float32s, list[tuple[str, str]]]:
    """Vectors on a plane.

    Args:
        vectors: `[n, W]`.
        how: which way; the same vectors give the same plane.

    Returns:
        `[n, 2]`, and facts about it as (figure, name).

    Raises:
        DataError: fewer than three texts, more than `MOST`, or numbers that are not finite.
    """
    if not 3 <= len(vectors) <= MOST:
        raise DataError(f"{len(vectors):,} texts; a plot takes 3 to {MOST:,}: draw a sample")
    if not np.isfinite(vectors).all():
        raise DataError("some vectors hold numbers that are not finite; a plot has no place there")
    facts = [(f"{len(vectors):,}", "texts"), (f"{vectors.shape[1]:,}", "numbers a vector")]
    mean = vectors.mean(0)
    if np.abs(vectors - mean).max() <= _NOISE * np.abs(mean).max():
        points = np.zeros((len(vectors), 2), np.float32)
        return points, [*facts, ("0", "directions: all vectors are the same")]
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    pca = PCA(min(50, *vectors.shape), random_state=0)
    reduced = pca.fit_transform(vectors)
    if reduced.shape[1] == 1:
        reduced = np.pad(reduced, ((0, 0), (0, 1)))
    if how == "pca":
        points = np.asarray(reduced[:, :2], np.float32)
        share = float(pca.explained_variance_ratio_[:2].sum())
        return points, [*facts, (f"{share:.0%}", "of variance on this plane (PCA)")]
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=0)
    points = np.asarray(tsne.fit_transform(reduced), np.float32)
    told = "perplexity (t-SNE): near are neighbours, far means nothing"
    return points, [*facts, (f"{perplexity:.0f}", told)]


def vector_page(
    name: str,
    points: Float32s,
    texts: Sequence[str],
    values: Sequence[str],
    column: str | None,
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """The page.

    Args:
        name: of the corpus.
        points: `[n, 2]`.
        texts: n, told when a dot is pointed at.
        values: n, of the column that colours; those beyond the nine most frequent share a colour.
        column: its name, if there is one.
        facts: (figure, name).
    """
    title = f"Texts of {name}"
    common = [value for value, _ in Counter(values).most_common(len(COLORS) - 1)]
    style = {value: place for place, value in enumerate(common)}
    rest = len(COLORS) - 1
    low, high = points.min(0), points.max(0)
    scale = (SIZE - 2 * EDGE) / max(float((high - low).max()), 1e-9)
    places = EDGE + (points - low) * scale
    width, height = 2 * EDGE + (high - low) * scale
    size = 4 if len(points) < 1000 else 2.5
    dots = [
        _mark(style.get(value, rest), x, height - y, size, _told(each, value, column), f"m{number}")
        for number, ((x, y), each, value) in enumerate(zip(places, texts, values, strict=True))
    ]
    told = f"{title}: {len(points):,} marks; the table below has their texts"
    svg = (
        f'<div class="card"><svg class="dots" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{text(told)}">{"".join(dots)}</svg></div>'
    )
    head = (
        f"<h1>{text(title)}</h1><p class='soft'>A mark is a text; point at it to read it, or "
        "choose the text in the table below: its mark is framed.</p>"
    )
    rows = _rows(points, texts, values, column)
    return page(title, [head, tiles(facts), _legend(style, values, column), svg, rows])


def _rows(points: Float32s, texts: Sequence[str], values: Sequence[str], column: str | None) -> str:
    """The texts as a table, each a link to its mark, beside the nearest one."""
    from scipy.spatial import KDTree

    _, found = KDTree(points).query(points, k=2)
    nearest = [a if a != own else b for own, (a, b) in enumerate(found.tolist())]
    shown = [f"<bdi>{text(_cut(each, SHOWN) or '(empty)')}</bdi>" for each in texts]
    rows = [
        [
            Markup(f'<a href="#m{number}">{each}</a>'),
            *([] if column is None else [_cut(values[number], NAMED)]),
            Markup(shown[nearest[number]]),
        ]
        for number, each in enumerate(shown)
    ]
    columns = ["text", *([] if column is None else [column]), "nearest on the plane"]
    return folded("The texts as a table", table(columns, rows, even=True))


def _mark(style: int, x: float, y: float, size: float, said: str = "", name: str = "") -> str:
    """A mark of a value's colour and shape; links lead to its name."""
    shape = SHAPES[style % len(SHAPES)]
    if shape == SHAPES[-1]:
        shape = shape.format(d=1.3 * size)
    else:
        radius = size if shape == SHAPES[0] else 0.88 * size
        shape = shape.format(r=radius, d=2 * radius)
    title = f"<title>{text(said)}</title>" if said else ""
    name = f' id="{name}"' if name else ""
    return (
        f'<path d="M{x:.1f} {y:.1f}{shape}" fill="{COLORS[style]}" fill-opacity="0.75"{name}>'
        f"{title}</path>"
    )


def _told(each: str, value: str, column: str | None) -> str:
    shown = _cut(each, SHOWN)
    return shown if column is None else f"{shown} ({column}: {_cut(value, SHOWN)})"


def _cut(value: str, most: int) -> str:
    return value if len(value) <= most else value[: most - 3] + "..."


def _legend(style: dict[str, int], values: Sequence[str], column: str | None) -> str:
    if column is None:
        return ""
    counts = Counter(values)
    rows = [(value, mark, counts[value]) for value, mark in style.items()]
    others = len(values) - sum(count for _, _, count in rows)
    rows += [("others", len(COLORS) - 1, others)] if others else []
    marks = "".join(
        f'<li><svg class="key" viewBox="0 0 14 14" aria-hidden="true">{_mark(mark, 7, 7, 5)}</svg>'
        f"<bdi>{text(_cut(value, NAMED))}</bdi> ({count:,})</li>"
        for value, mark, count in rows
    )
    return f'<h2><bdi>{text(column)}</bdi></h2><ul class="legend">{marks}</ul>'
