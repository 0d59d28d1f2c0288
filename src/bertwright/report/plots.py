"""Charts as SVG text: no library, no script, colours from the page's style sheet.

Classes in the SVG (`train`, `dev`, `baseline`, `axis`, `grid`) get their colours from `page.css`,
so that a chart is dark where the page is. Every mark has a `<title>`, which browsers show on
hovering. A chart is a `<figure>`: its title and legend are HTML, which wraps where there is little
room, and what it shows is said in words to those who do not see it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bertwright.report.html import text
from bertwright.report.numbers import short

WIDTH, HEIGHT = 520, 262
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 24, 42
MARKED = ("dev", "tuned", "frozen", "random", "words")
"""Styles whose points have marks."""
MOST_MARKS = 60
MOST_POINTS = 500
"""A line of more is drawn through the means of equal stretches of it."""
SMALLEST, LARGEST = 1e-300, 1e300
"""Ranges beyond these leave float64 no room for marks."""

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
    """One chart as a `<figure>`; points that are not finite, or too far out, are left out."""
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
    frame = _Frame((x_low, x_high), (y_low, y_high))
    return frame.drawn(
        title,
        "; ".join(_told(each, y_format) for each in drawn),
        frame.axes(x_ticks, y_ticks, x_name, x_format, y_format),
        *(_line(each, frame, x_format, y_format) for each in drawn),
        legend=_legend(drawn),
    )


def reliability(title: str, bins: Sequence[tuple[float, float, int]]) -> str:
    """Bins as (probability given, share that was right, examples), beside the diagonal where both
    are the same; the larger a mark, the more examples; upright, 95% intervals (Wilson 1927)."""
    frame, quarters = _Frame((0.0, 1.0), (0.0, 1.0)), (0.0, 0.25, 0.5, 0.75, 1.0)
    percent = "{:.0%}".format
    parts = [
        frame.axes(quarters, quarters, "probability given", percent, percent, "share right"),
        frame.diagonal(),
    ]
    told = []
    most = max((count for _, _, count in bins), default=1)
    for given, right, count in sorted(bins):
        low, high = wilson(right, count)
        (x, y), (_, bottom), (_, top) = (frame.place(given, each) for each in (right, low, high))
        told.append(
            f"{count:,} answers: {given:.1%} given, {right:.1%} right ({low:.0%} to {high:.0%})"
        )
        parts.append(f'<path class="line train" d="M{x:.1f} {bottom:.1f}V{top:.1f}"/>')
        parts.append(_mark("dev", x, y, told[-1], 2.5 + 6 * math.sqrt(count / most)))
    legend = [("right as often as it says", "baseline"), ("95% interval", "train")]
    return frame.drawn(title, "; ".join(told), *parts, legend=legend)


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of `count`, by Wilson's score."""
    z = 1.96
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    whole = 1 + z * z / count
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def scatter(
    title: str, points: Sequence[tuple[float, float]], x_name: str, y_name: str, form: Format
) -> str:
    """Points as (x, y) in a square of one range, with the diagonal where both are the same."""
    both = [value for point in points for value in point]
    edge = 0.03 * (max(both) - min(both)) or 1.0
    ends = min(both) - edge, max(both) + edge
    marks = [value for value in ticks(*ends, 9) if ends[0] <= value <= ends[1]]
    frame = _Frame(ends, ends, WIDTH - LEFT - RIGHT + TOP + BOTTOM)
    return frame.drawn(
        title,
        f"{len(points):,} dots, {x_name} across, {y_name} upwards",
        frame.axes(marks, marks, x_name, form, form, y_name),
        frame.diagonal(),
        *(
            _mark("dot", *frame.place(x, y), f"{x_name} {form(x)}, {y_name} {form(y)}", 3.5)
            for x, y in points
        ),
        legend=[("both the same", "baseline")],
    )


def histogram(
    title: str,
    counts: Sequence[int],
    width: int,
    beyond: int,
    x_name: str,
    x_high: float,
    mark: tuple[str, float] | None = None,
    style: str = "train",
) -> str:
    """How many examples' whole numbers lie in each of equal stretches.

    Args:
        counts: those of each stretch, the first from 0.
        width: of a stretch.
        beyond: how many lie behind the last; they stand as a bar of their own at the right edge.
        x_high: where the axis ends, but for that bar.
        mark: a name and the value it stands at; one behind the end is told with an arrow.
        style: `train` or `dev`.
    """
    high = ticks(0.0, max(*counts, beyond, 1))
    end = x_high * 1.06 if beyond else x_high
    frame = _Frame((0.0, end), (0.0, high[-1]))
    across = [value for value in ticks(0.0, x_high) if value <= x_high]
    parts = [frame.axes(across, high, x_name, short, short, "examples")]
    stretches: list[tuple[float, float, int, str]] = []
    for place, count in enumerate(counts):
        low, last = place * width, (place + 1) * width - 1
        said = f"{low:,} to {last:,}" if last > low else f"{low:,}"
        stretches.append((low, last + 1, count, said))
    stretches.append((end - 0.04 * x_high, end, beyond, f"{len(counts) * width:,} or more"))
    for left, right, count, said in stretches:
        (x1, y1), (x2, y2) = frame.place(left, count), frame.place(right, 0.0)
        if count:
            parts.append(
                f'<rect class="mark {text(style)}" x="{x1 + 0.3:.1f}" y="{y1:.1f}" '
                f'width="{max(x2 - x1 - 0.6, 0.6):.1f}" height="{y2 - y1:.1f}">'
                f"<title>{said} {text(x_name)}: {count:,}</title></rect>"
            )
    if beyond:
        x, y = frame.place(end, beyond)
        parts.append(f'<text class="axis" x="{x}" y="{y - 4:.1f}" text-anchor="end">longer</text>')
    _, _, most, said = max(stretches, key=lambda stretch: stretch[2])
    told = f"{sum(counts) + beyond:,} examples; most, {most:,}, have {said} {x_name}"
    return frame.drawn(title, told, *parts, _upright(mark, frame, x_high))


@dataclass(frozen=True)
class _Frame:
    """Where values lie in a chart: its ranges, and its height."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: int = HEIGHT

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A point on the page."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0] or 1)
        up = (y - self.y[0]) / (self.y[1] - self.y[0] or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), self.height - BOTTOM - up * (
            self.height - TOP - BOTTOM
        )

    def drawn(
        self, title: str, told: str, *parts: str, legend: Sequence[tuple[str, str]] = ()
    ) -> str:
        """The whole figure; `told` says what it shows, `legend` has names and styles of lines."""
        keys = "".join(f"<span>{key(style)} {text(name)}</span>" for name, style in legend)
        return (
            f"<figure><figcaption><b>{text(title)}</b>{keys}</figcaption>"
            f'<svg class="chart" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-label="{text(f"{title}: {told}")}">{"".join(parts)}</svg></figure>'
        )

    def axes(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_name: str,
        x_format: Format,
        y_format: Format,
        y_name: str = "",
    ) -> str:
        """Lines across, the numbers of both axes, and their names (the title may be that of y)."""
        parts = [f'<text class="axis" x="{LEFT}" y="{TOP - 10}">{text(y_name)}</text>']
        for value, label in zip(y_ticks, _labels(y_ticks, y_format), strict=True):
            _, y = self.place(self.x[0], value)
            parts.append(
                f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text class="axis" '
                f'x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{text(label)}</text>'
            )
        for value in x_ticks:
            if value <= self.x[1]:
                x, _ = self.place(value, self.y[0])
                parts.append(
                    f'<text class="axis" x="{x:.1f}" y="{self.height - BOTTOM + 18}" '
                    f'text-anchor="middle">{text(x_format(value))}</text>'
                )
        parts.append(
            f'<text class="axis" x="{WIDTH - RIGHT}" y="{self.height - 6}" '
            f'text-anchor="end">{text(x_name)}</text>'
        )
        return "".join(parts)

    def diagonal(self) -> str:
        """From corner to corner."""
        (x1, y1), (x2, y2) = self.place(self.x[0], self.y[0]), self.place(self.x[1], self.y[1])
        return f'<path class="line baseline" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten) that cover `low` to `high`."""
    if not SMALLEST < high - low < LARGEST:
        high = low + (abs(low) if abs(low) > SMALLEST else 1.0)
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _labels(values: Sequence[float], form: Format) -> list[str]:
    """What stands beside ticks: as many decimals for each, and more digits where with few of them
    two would read the same."""
    labels = [form(value) for value in values]
    if len(set(labels)) < len(labels):
        percent = labels[0].endswith("%")
        labels = [f"{100 * v:.6g}%" if percent else f"{v:.6g}" for v in values]
    if any("e-" in label for label in labels):
        labels = [_power(value) for value in values]
    decimals = max(len(re.sub(r"^[^.]*\.?|\D*$", "", label)) for label in labels)
    if decimals and not any(re.search("[a-zA-Z]", label) for label in labels):
        labels = [_with_decimals(label, decimals) for label in labels]
    return labels


def _power(value: float) -> str:
    """`8e-5`"""
    mantissa, exponent = f"{value:.6e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}" if value else "0"


def _with_decimals(label: str, decimals: int) -> str:
    """`7%` as `7.0%`"""
    found = label.rstrip("%")
    return f"{float(found):.{decimals}f}{label[len(found) :]}"


def _finite(series: Series) -> Series:
    """The series without points that are infinite, no number, or too far out for an axis."""
    if series.style == "baseline":
        pairs = [(0.0, y) for y in series.ys[:1]]
    else:
        pairs = list(zip(series.xs, series.ys, strict=True))
    most = LARGEST / 10
    kept = [(x, y) for x, y in pairs if abs(x) < most and abs(y) < most]  # never true of NaN
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


def _line(series: Series, frame: _Frame, x_format: Format, y_format: Format) -> str:
    """The path of a series, and its marks."""
    style = text(series.style)
    name = text(series.name)
    if series.style == "baseline":
        (x1, y), (x2, _) = (frame.place(x, series.ys[0]) for x in frame.x)
        title = f"<title>{name}: {text(y_format(series.ys[0]))}</title>"
        return f'<path class="line {style}" d="M{x1:.1f} {y:.1f}H{x2:.1f}">{title}</path>'
    points = [frame.place(x, y) for x, y in zip(series.xs, series.ys, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path class="line {style}" d="M{path}"><title>{name}</title></path>']
    if len(points) == 1 or (series.style in MARKED and len(points) <= MOST_MARKS):
        for (x, y), x_value, y_value in zip(points, series.xs, series.ys, strict=True):
            said = f"{series.name}: {y_format(y_value)} at {x_format(x_value)}"
            parts.append(_mark(series.style, x, y, said, 3))
    return "".join(parts)


def _mark(style: str, x: float, y: float, said: str, radius: float) -> str:
    """A dot that says something when it is pointed at."""
    return (
        f'<circle class="mark {text(style)}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.3g}">'
        f"<title>{text(said)}</title></circle>"
    )


def _upright(mark: tuple[str, float] | None, frame: _Frame, x_high: float) -> str:
    """A line upwards at a value, and its name: to the left of it where there is no room."""
    if mark is None:
        return ""
    name, value = mark
    inside = value <= x_high
    x, low = frame.place(min(value, x_high), frame.y[0])
    side = "end" if x > WIDTH / 2 else "start"
    shown = name if inside else f"{name} \N{RIGHTWARDS ARROW}"
    x_label = x if side == "end" else max(x, LEFT + 64)  # beside the name of y
    label = f'<text class="axis" x="{x_label:.1f}" y="{TOP - 10}" '
    line = f'<path class="line window" d="M{x:.1f} {low:.1f}V{TOP - 6}"/>' if inside else ""
    return f'{line}{label}text-anchor="{side}">{text(shown)}</text>'


def key(style: str) -> str:
    """The stroke of a style, to stand beside its name."""
    line = f'<path class="line {text(style)}" d="M0 7h24"/>'
    return f'<svg class="key" viewBox="0 0 24 14" aria-hidden="true">{line}</svg>'


def _legend(series: Sequence[Series]) -> list[tuple[str, str]]:
    """Names and styles, each once."""
    shown = {each.name if each.legend is None else each.legend: each.style for each in series}
    return [(name, style) for name, style in shown.items() if name]


def _told(series: Series, y_format: Format) -> str:
    """A line in words: where it begins and ends."""
    first, last = (y_format(series.ys[end]) for end in (0, -1))
    return f"{series.name} {last}" if first == last else f"{series.name} from {first} to {last}"
