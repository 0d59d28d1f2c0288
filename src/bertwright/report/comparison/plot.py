"""The chart of a comparison: a row for each system, with its results as marks with intervals.

The systems are rows, with their names above the marks, so that the chart can be read on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bertwright.report.plots import WIDTH, figure, labels, mark, path, text_at, ticks

ROW, TOP, BOTTOM, LEFT, RIGHT = 42, 8, 26, 14, 20
SHIFT = 5.0
"""The vertical distance between the marks of a row, so that their intervals do not overlap."""


@dataclass(frozen=True)
class Dot:
    """A result in a row, with its interval."""

    name: str
    style: str
    """A class of `page.css`: `frozen`, `tuned`, `random`."""
    value: float
    low: float | None = None
    high: float | None = None
    doubt: str = ""
    """Why it is no result, so that its mark is hatched; empty: it is one."""

    def shown(self, value: str) -> str:
        """Return the value, with why it is no result."""
        return f"{self.doubt} ({value})" if self.doubt else value


@dataclass(frozen=True)
class Row:
    """A row of the chart."""

    name: str
    dots: Sequence[Dot]
    note: str = ""
    """A text that is shown in a row without results."""


@dataclass(frozen=True)
class Level:
    """A vertical line through all rows, such as a baseline."""

    name: str
    style: str
    value: float


def comparison_plot(
    title: str, rows: Sequence[Row], levels: Sequence[Level], percent: bool
) -> Markup:
    """Return the chart as a `<figure>`; empty if no row has a result."""
    values = [level.value for level in levels]
    for row in rows:
        for dot in row.dots:
            values += [each for each in (dot.low, dot.value, dot.high) if each is not None]
    values = [value for value in values if math.isfinite(value)]
    if not values or not any(row.dots for row in rows):
        return Markup("")
    marks = ticks(min(values), max(values))
    low, high = min(marks[0], *values), max(marks[-1], *values)
    height = TOP + ROW * len(rows) + BOTTOM

    def x(value: float) -> float:
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def show(value: float) -> str:
        return f"{value:.1%}" if percent else f"{value:.3f}"

    bottom = height - BOTTOM
    parts = []
    for value, label in zip(marks, labels(marks, percent), strict=True):
        parts.append(path("grid", f"M{x(value):.1f} {TOP}V{bottom}"))
        parts.append(text_at(x(value), bottom + 18, label, "middle"))
    for level in levels:
        shown = f"{level.name}: {show(level.value)}"
        parts.append(path(f"line {level.style}", f"M{x(level.value):.1f} {TOP}V{bottom}", shown))
    for number, row in enumerate(rows):
        top = TOP + ROW * number
        parts.append(text_at(LEFT, top + 12, row.name, "start", "name"))
        if row.note:
            parts.append(text_at(LEFT, top + 28, row.note, "start"))
        first = top + 28 - SHIFT * (len(row.dots) - 1) / 2
        for place, dot in enumerate(row.dots):
            y = first + SHIFT * place
            shown = f"{row.name}, {dot.name}: {dot.shown(show(dot.value))}"
            if dot.low is not None and dot.high is not None:
                shown += f", {show(dot.low)} to {show(dot.high)}"
                parts.append(path(f"line {dot.style}", f"M{x(dot.low):.1f} {y}H{x(dot.high):.1f}"))
            if dot.doubt:
                parts += _hatched(dot.style, x(dot.value), y, shown)
            else:
                parts.append(mark(dot.style, x(dot.value), y, shown, radius=4))
    legend = {dot.name: dot.style for row in rows for dot in row.dots}
    legend |= {level.name: level.style for level in levels}
    words = "; ".join(
        f"{row.name} "
        + (", ".join(f"{d.name} {d.shown(show(d.value))}" for d in row.dots) or row.note)
        for row in rows
    )
    words += "".join(f"; {level.name} {show(level.value)}" for level in levels)
    return figure(
        title, words, parts, legend if len(legend) > 1 else {}, height, style="comparison"
    )


def _hatched(style: str, x: float, y: float, name: str) -> list[Markup]:
    """Return a hatched ring."""
    strokes = "".join(f"M{x + d - 3:.1f} {y + d + 3:.1f}l6 -6" for d in (-2, 0, 2))
    return [mark(f"{style} hollow", x, y, name, radius=5), path(f"line {style} hatch", strokes)]
