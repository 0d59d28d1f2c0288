"""Line charts as SVG text: no library, no script, colours from the page's style sheet.

Classes in the SVG (`train`, `dev`, `baseline`, `axis`, `grid`) get their colours from `page.css`,
so that a chart is dark where the page is. Every mark has a `<title>`, which browsers show on
hovering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bertwright.report.html import text

WIDTH, HEIGHT = 520, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 42
MARKED = ("dev", "tuned", "frozen", "random", "words")
"""Styles whose points have marks."""
MOST_MARKS = 60
MOST_POINTS = 500
"""A line of more is drawn through the means of equal stretches of it."""

Format = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """A line, or a level across the whole chart."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    """As many as `xs`; of a level the first alone counts."""
    style: str = "train"
    """`train` (a line), `dev` (a line with marks), `baseline` (a level, dashed), `seed` and
    `fallen` (thin lines, one a seed), `mean` (of those); `tuned`, `frozen`, `random`, `words`
    (lines with marks, one a method)."""
    legend: str | None = None
    """What stands in the legend; series of one legend stand there once. Unset: the name; empty:
    nothing."""


def chart(
    title: str,
    series: Sequence[Series],
    x_name: str,
    x_format: Format,
    y_format: Format,
    from_zero: bool = False,
) -> str:
    """One chart as an `<svg>` element; points that are not finite are left out."""
    drawn = [_thin(_finite(each)) for each in series]
    drawn = [each for each in drawn if each.ys]
    xs = [x for each in drawn if each.style != "baseline" for x in each.xs]
    ys = [y for each in drawn for y in each.ys]
    if not xs:
        return ""
    x_ticks = ticks(min(0.0, min(xs)), max(xs))
    y_ticks = ticks(min(0.0, min(ys)) if from_zero else min(ys), max(ys))
    x_low, x_high = min(0.0, min(xs)), max(max(xs), 1e-12)
    y_low, y_high = min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low or 1)
        up = (y - y_low) / (y_high - y_low or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (
            HEIGHT - TOP - BOTTOM
        )

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(title)}">',
        f'<text class="title" x="{LEFT}" y="18">{text(title)}</text>',
    ]
    for value in y_ticks:
        _, y = place(x_low, value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        label = text(y_format(value))
        parts.append(
            f'<text class="axis" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for value in x_ticks:
        if value > x_high:
            continue
        x, _ = place(value, y_low)
        label = text(x_format(value))
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" '
            f'text-anchor="middle">{label}</text>'
        )
    parts.append(
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" '
        f'text-anchor="end">{text(x_name)}</text>'
    )
    for each in drawn:
        parts.append(_line(each, place, x_low, x_high, x_format, y_format))
    parts.append(_legend(drawn))
    parts.append("</svg>")
    return "".join(parts)


def reliability(title: str, bins: Sequence[tuple[float, float, int]]) -> str:
    """Bins as (probability given, share that was right, examples), beside the diagonal where both
    are the same; the larger a mark, the more examples."""
    width, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(given: float, right: float) -> tuple[float, float]:
        return LEFT + given * width, HEIGHT - BOTTOM - right * high

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(title)}">',
        f'<text class="title" x="{LEFT}" y="18">{text(title)}</text>',
    ]
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place(value, value)
        side, bottom = LEFT - 7, HEIGHT - BOTTOM + 17
        parts.append(
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text class="axis" x="{side}" y="{y + 4:.1f}" text-anchor="end">{value:.0%}</text>'
            f'<text class="axis" x="{x:.1f}" y="{bottom}" text-anchor="middle">{value:.0%}</text>'
        )
    (x1, y1), (x2, y2) = place(0, 0), place(1, 1)
    parts.append(f'<path class="line baseline" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
    points = [(*place(given, right), given, right, count) for given, right, count in sorted(bins)]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y, *_ in points)
    parts.append(f'<path class="line train" d="M{line}"/>' if points else "")
    most = max((count for _, _, count in bins), default=1)
    for x, y, given, right, count in points:
        said = f"{count:,} answers: {given:.1%} given, {right:.1%} right"
        radius = 2.5 + 6 * math.sqrt(count / most)
        parts.append(
            f'<circle class="mark dev" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
            f"<title>{said}</title></circle>"
        )
    parts.append(
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" '
        'text-anchor="end">probability given</text></svg>'
    )
    return "".join(parts)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten) that cover `low` to `high`."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _finite(series: Series) -> Series:
    """The series without points that are missing, infinite or no number."""
    if series.style == "baseline":
        kept = [(0.0, y) for y in series.ys[:1] if math.isfinite(y)]
    else:
        pairs = zip(series.xs, series.ys, strict=True)
        kept = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    return replace(series, xs=[x for x, _ in kept], ys=[y for _, y in kept])


def _thin(series: Series) -> Series:
    """A long series as the means of at most `MOST_POINTS` stretches of it, the last point kept."""
    count = len(series.xs)
    if count <= MOST_POINTS:
        return series
    edges = [count * number // (MOST_POINTS - 1) for number in range(MOST_POINTS)]
    cuts = list(pairwise(edges))
    xs, ys = ([sum(v[a:b]) / (b - a) for a, b in cuts] for v in (series.xs, series.ys))
    return replace(series, xs=[*xs, series.xs[-1]], ys=[*ys, series.ys[-1]])


def _line(
    series: Series,
    place: Callable[[float, float], tuple[float, float]],
    x_low: float,
    x_high: float,
    x_format: Format,
    y_format: Format,
) -> str:
    """The path of a series, and its marks."""
    style = text(series.style)
    name = text(series.name)
    if series.style == "baseline":
        (x1, y), (x2, _) = place(x_low, series.ys[0]), place(x_high, series.ys[0])
        title = f"<title>{name}: {text(y_format(series.ys[0]))}</title>"
        return f'<path class="line {style}" d="M{x1:.1f} {y:.1f}H{x2:.1f}">{title}</path>'
    points = [place(x, y) for x, y in zip(series.xs, series.ys, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path class="line {style}" d="M{path}"><title>{name}</title></path>']
    if len(points) == 1 or (series.style in MARKED and len(points) <= MOST_MARKS):
        for (x, y), x_value, y_value in zip(points, series.xs, series.ys, strict=True):
            said = text(f"{series.name}: {y_format(y_value)} at {x_format(x_value)}")
            parts.append(
                f'<circle class="mark {style}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
                f"<title>{said}</title></circle>"
            )
    return "".join(parts)


def _legend(series: Sequence[Series]) -> str:
    """Names with their strokes, to the right of the title."""
    parts = []
    right = float(WIDTH - RIGHT)
    shown = {each.name if each.legend is None else each.legend: each.style for each in series}
    for name, style in reversed(shown.items()):
        if not name:
            continue
        right -= 6.4 * len(name)
        parts.append(f'<text class="axis" x="{right:.0f}" y="18">{text(name)}</text>')
        style = text(style)
        parts.append(f'<path class="line {style}" d="M{right - 22:.0f} 14h16"/>')
        right -= 36
    return "".join(parts)
