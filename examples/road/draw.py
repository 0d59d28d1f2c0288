"""Small pictures as SVG, which notebooks show without a plotting library.

`lines` draws curves, `bars` one figure per name, `dots` points with names, and `matrices` one or
several matrices as squares whose darkness is the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from bertwright.report.plots import labels, ticks

COLORS = ("#4269d0", "#ff725c", "#3ca951", "#efb118", "#a463f2", "#6cc5b0", "#9c6b4e", "#9498a0")
WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 130, 34, 44


@dataclass(frozen=True)
class Picture:
    """A drawing that a notebook shows."""

    title: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture: {self.title}>"


def lines(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str
) -> Picture:
    """Draw a curve for each name of `series` through its points (x, y)."""
    points = [point for each in series.values() for point in each]
    x_ticks = ticks(min(p[0] for p in points), max(p[0] for p in points))
    y_ticks = ticks(min(p[1] for p in points), max(p[1] for p in points))

    def at(point: tuple[float, float]) -> tuple[float, float]:
        across = (point[0] - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (point[1] - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )

    parts = []
    for value, label in zip(y_ticks, labels(y_ticks), strict=True):
        _, height = at((x_ticks[0], value))
        parts.append(_line([(LEFT, height), (WIDTH - RIGHT, height)], "#dddddd", 1))
        parts.append(_text(LEFT - 6, height + 4, label, "end"))
    for value, label in zip(x_ticks, labels(x_ticks), strict=True):
        parts.append(_text(at((value, y_ticks[0]))[0], HEIGHT - BOTTOM + 16, label))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 8, x, "end"))
    parts.append(_text(LEFT, TOP - 4, y, "start"))
    for number, (name, each) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        parts.append(_line([at(point) for point in each], color, 2))
        if len(each) <= 20:
            parts += [_dot(*at(point), color) for point in each]
        parts.append(_text(WIDTH - RIGHT + 10, TOP + 8 + 18 * number, name, "start", color))
    return _picture(title, WIDTH, HEIGHT, parts)


def bars(title: str, values: Mapping[str, float], form: str = ".3g") -> Picture:
    """Draw a horizontal bar for each name, with its value as `form` formats it."""
    left, row = 30 + 7 * max(map(len, values)), 24
    longest = max(*values.values(), 0.0) or 1.0
    parts = []
    for number, (name, value) in enumerate(values.items()):
        top = TOP + row * number
        width = max(0.0, value) / longest * (WIDTH - left - 70)
        parts.append(_text(left - 8, top + 14, name, "end"))
        parts.append(
            f'<rect x="{left}" y="{top + 2}" width="{width:.1f}" height="{row - 7}" '
            f'fill="{COLORS[0]}"/>'
        )
        parts.append(_text(left + width + 6, top + 14, format(value, form), "start"))
    return _picture(title, WIDTH, TOP + row * len(values) + 8, parts)


def dots(title: str, points: Any, names: Sequence[str], groups: Sequence[str] = ()) -> Picture:
    """Draw points `[n, 2]`: with their names; or, with `groups`, in the colour of their group."""
    points = np.asarray(points, np.float64)
    low, high = points.min(0), points.max(0)
    right = RIGHT if groups else 20
    height = 400
    room = np.array([WIDTH - right - 70, height - TOP - 30])
    places = (points - low) / np.maximum(high - low, 1e-9) * room
    kinds = list(dict.fromkeys(groups))
    parts = []
    for number, ((x, y), name) in enumerate(zip(places.tolist(), names, strict=True)):
        color = COLORS[kinds.index(groups[number])] if groups else COLORS[0]
        across, down = 30 + x, height - 20 - y
        parts.append(_dot(across, down, color, name))
        if not groups:
            parts.append(_text(across + 5, down + 4, name, "start"))
    for number, kind in enumerate(kinds):
        parts.append(_text(WIDTH - right, TOP + 12 + 18 * number, kind, "start", COLORS[number]))
    return _picture(title, WIDTH, height, parts)


def matrices(
    title: str,
    values: Mapping[str, Any],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    size: int = 22,
) -> Picture:
    """Draw matrices side by side; their rows and columns may have names.

    Args:
        title: the title.
        values: the matrices by their names, all of one shape. The largest magnitude of all is the
            darkest; negative values are red.
        rows: the names of the rows.
        columns: the names of the columns.
        size: the width of a square.
    """
    tables = {name: np.asarray(table, np.float64) for name, table in values.items()}
    height, width = next(iter(tables.values())).shape
    largest = max(float(np.abs(table).max()) for table in tables.values()) or 1.0
    left = 12 + 7 * max(map(len, rows), default=0)
    above = TOP + 16 + 7 * max(map(len, columns), default=0)
    wide = max(size * width, 8 * max(map(len, tables))) + 16
    parts = []
    for number, (name, table) in enumerate(tables.items()):
        start = left + number * wide
        parts.append(_text(start, TOP + 6, name, "start", "#333333"))
        for j, column in enumerate(columns):
            x = start + size * j + size / 2 + 4
            parts.append(
                f'<text x="{x:.1f}" y="{above - 4}" transform="rotate(-90 {x:.1f} {above - 4})" '
                f'fill="#555555">{escape(column)}</text>'
            )
        parts.append(
            f'<rect x="{start}" y="{above}" width="{size * width}" height="{size * height}" '
            'fill="none" stroke="#cccccc"/>'
        )
        for i in range(height):
            if number == 0 and rows:
                parts.append(_text(left - 5, above + size * i + size / 2 + 4, rows[i], "end"))
        for color, sign in ((COLORS[0], 1.0), (COLORS[1], -1.0)):
            squares = "".join(
                f'<path d="M{start + size * j} {above + size * i}h{size}v{size}h-{size}z" '
                f'opacity="{sign * table[i, j] / largest:.2f}"/>'
                for i in range(height)
                for j in range(width)
                if sign * table[i, j] / largest >= 0.005
            )
            parts.append(f'<g fill="{color}">{squares}</g>')
    return _picture(title, left + wide * len(tables), above + size * height + 12, parts)


def _picture(title: str, width: float, height: float, parts: Sequence[str]) -> Picture:
    """Return a picture on a white ground, which can be read in a dark notebook too.

    It is at least as wide as its title.
    """
    width = max(width, 20 + 7.4 * len(title))
    inside = "".join(
        (
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            f'<text x="10" y="13" font-weight="bold" fill="#222222">{escape(title)}</text>',
            *parts,
        )
    )
    return Picture(
        title,
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">'
        f"{inside}</svg>",
    )


def _line(points: Sequence[tuple[float, float]], color: str, width: float) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def _dot(x: float, y: float, color: str, name: str = "") -> str:
    title = f"<title>{escape(name)}</title>" if name else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}">{title}</circle>'


def _text(x: float, y: float, text: str, anchor: str = "middle", color: str = "#555555") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )
