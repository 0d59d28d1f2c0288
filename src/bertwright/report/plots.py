"""Draw charts as SVG, in the colours of the page's style sheet, with a `<title>` on every mark.

A chart of 500 points takes 8 kB and follows the page's light or dark mode. An SVG of matplotlib or
Altair takes 21 to 23 kB, has fixed colours and shows no values on hovering. Altair with its inlined
bundle shows values on hovering, but makes a page of 928 kB that needs scripts.

A chart is a `<figure>`. Its title and legend are HTML, which wraps on a narrow page, and
`aria-label` describes it in words. Its classes (`train`, `dev`, `baseline`, `grid`) get colours in
`page.css`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from bertwright.report.numbers import short

WIDTH, HEIGHT = 520, 262
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 24, 42
MARKED = ("dev", "tuned", "frozen", "random", "words")
"""The styles whose points have marks."""
MOST_MARKS = 60
MOST_POINTS = 500
"""The maximum number of points of a line; a longer one is drawn through a part of its points."""
SMALLEST, LARGEST = 1e-300, 1e300
"""The limits of a range of values; beyond them, float64 overflows when ticks are computed."""

_TEXT = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
_MARK = Markup(
    '<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="{:.3g}"><title>{}</title></circle>'
)
_FIGURE = Markup(
    '<figure class="{}"><figcaption><b>{}</b>{}</figcaption>'
    '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></figure>'
)


@dataclass(frozen=True)
class Series:
    """A line, or a horizontal level, of a chart."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    """The values, as many as `xs`. A level uses only the first one."""
    style: str = "train"
    """`train` (a line), `dev` (a line with marks), `baseline` (a dashed level), `seed` (a thin line
    for each seed), or `tuned`, `frozen`, `random`, `words` (a line with marks for each method).
    """
    legend: str | None = None
    """The name in the legend, which has each name once. None: `name`; empty: no entry."""


def chart(
    title: str,
    series: Sequence[Series],
    x_name: str,
    percent: bool = False,
    from_zero: bool = False,
    x_labels: Sequence[str] = (),
) -> Markup:
    """Return a chart of lines over one x axis.

    Args:
        title: the title, which is also the name of the y axis.
        series: the lines. Points that are not finite, or too large for an axis, are left out.
        x_name: the name of the x axis.
        percent: whether y is a fraction that is shown in percent.
        from_zero: whether the y axis begins at 0.
        x_labels: the names of x = 0, 1, 2, ...; empty: x is a number.

    Returns:
        A `<figure>`; empty if no series has a point.
    """
    drawn = [each for each in map(_thin, map(_finite, series)) if each.ys]
    xs = [x for each in drawn if each.style != "baseline" for x in each.xs]
    ys = [y for each in drawn for y in each.ys]
    if not xs:
        return Markup("")
    x_ticks = [*range(len(x_labels))] if x_labels else ticks(min(0.0, min(xs)), max(xs))
    y_ticks = ticks(min(0.0, min(ys)) if from_zero else min(ys), max(ys))
    frame = _Frame(
        (min(0.0, min(xs)), max(max(xs), 1e-12)),
        (min(y_ticks[0], min(ys)), max(y_ticks[-1], max(ys))),
    )

    def show(value: float) -> str:
        return f"{value:.1%}" if percent else f"{value:.4g}"

    def show_x(value: float) -> str:
        return x_labels[int(value)] if x_labels else short(value)

    legend = {each.name if each.legend is None else each.legend: each.style for each in drawn}
    return figure(
        title,
        "; ".join(_in_words(each, show) for each in drawn),
        [
            frame.axes(x_ticks, y_ticks, x_name, percent, x_labels),
            *(_line(each, frame, show_x, show) for each in drawn),
        ],
        legend={name: style for name, style in legend.items() if name},
    )


@dataclass(frozen=True)
class _Frame:
    """The ranges of a chart's axes, which map values to coordinates."""

    x: tuple[float, float]
    y: tuple[float, float]

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of a point in the drawing."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0] or 1)
        up = (y - self.y[0]) / (self.y[1] - self.y[0] or 1)
        y = HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)
        return LEFT + across * (WIDTH - LEFT - RIGHT), y

    def axes(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_name: str,
        percent: bool,
        x_labels: Sequence[str],
    ) -> Markup:
        """Return the grid lines, the numbers on both axes, and the name of the x axis."""
        parts = []
        for value, label in zip(y_ticks, labels(y_ticks, percent), strict=True):
            _, y = self.point(self.x[0], value)
            parts.append(path("grid", f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"))
            parts.append(text_at(LEFT - 7, y + 4, label, "end"))
        below = HEIGHT - BOTTOM + 18
        for value, label in zip(x_ticks, x_labels or labels(x_ticks), strict=True):
            if value <= self.x[1]:
                parts.append(text_at(self.point(value, self.y[0])[0], below, label, "middle"))
        parts.append(text_at(WIDTH - RIGHT, HEIGHT - 6, x_name, "end"))
        return Markup("").join(parts)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values (1, 2 or 5 times a power of ten) that cover `low` to `high`."""
    if not max(SMALLEST, 1e-9 * abs(low)) < high - low < LARGEST:
        high = low + (abs(low) if abs(low) > SMALLEST else 1.0)
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def labels(values: Sequence[float], percent: bool = False) -> list[str]:
    """Return the labels of ticks, which are all different."""
    if percent:
        return [f"{100 * value:.10g}%" for value in values]
    texts = [short(value) if abs(value) >= 1000 else f"{value:.10g}" for value in values]
    return texts if len(set(texts)) == len(texts) else [f"{value:.10g}" for value in values]


def _finite(series: Series) -> Series:
    """Return the series without points that are infinite, NaN, or too large for an axis."""
    if series.style == "baseline":
        pairs = [(0.0, y) for y in series.ys[:1]]
    else:
        pairs = list(zip(series.xs, series.ys, strict=True))
    most = LARGEST / 10
    finite = [(x, y) for x, y in pairs if abs(x) < most and abs(y) < most]  # false for NaN
    return replace(series, xs=[x for x, _ in finite], ys=[y for _, y in finite])


def _thin(series: Series) -> Series:
    """Return a long series with at most `MOST_POINTS` of its points, including the last one."""
    step = -(-len(series.xs) // MOST_POINTS)
    if step < 2:
        return series
    return replace(series, xs=series.xs[::-step][::-1], ys=series.ys[::-step][::-1])


def _line(
    series: Series, frame: _Frame, show_x: Callable[[float], str], show: Callable[[float], str]
) -> Markup:
    style = f"line {series.style}"
    if series.style == "baseline":
        (x1, y), (x2, _) = (frame.point(x, series.ys[0]) for x in frame.x)
        return path(style, f"M{x1:.1f} {y:.1f}H{x2:.1f}", f"{series.name}: {show(series.ys[0])}")
    points = [frame.point(x, y) for x, y in zip(series.xs, series.ys, strict=True)]
    parts = [path(style, "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), series.name)]
    if len(points) == 1 or (series.style in MARKED and len(points) <= MOST_MARKS):
        parts += [
            mark(series.style, *point, f"{series.name}: {show(y)} at {show_x(x)}")
            for point, x, y in zip(points, series.xs, series.ys, strict=True)
        ]
    return Markup("").join(parts)


def figure(
    title: str,
    words: str,
    parts: Sequence[Markup],
    legend: Mapping[str, str],
    height: int = HEIGHT,
    style: str = "plot",
) -> Markup:
    """Return a chart as a `<figure>`.

    Args:
        title: the title.
        words: the content of the chart in words.
        parts: the marks of the drawing, which is `WIDTH` wide.
        legend: the style of each line of the legend, by its name.
        height: the height of the drawing.
        style: a class of `page.css`.
    """
    keys = (Markup("<span>{} {}</span>").format(key(style), name) for name, style in legend.items())
    return _FIGURE.format(
        style,
        title,
        Markup("").join(keys),
        WIDTH,
        height,
        f"{title}: {words}",
        Markup("").join(parts),
    )


def text_at(x: float, y: float, text: str, anchor: str, style: str = "axis") -> Markup:
    """Return a text whose start, middle or end is at x."""
    return _TEXT.format(style, x, y, anchor, text)


def mark(style: str, x: float, y: float, name: str, radius: float = 3) -> Markup:
    """Return a dot that shows its name when the pointer is over it."""
    return _MARK.format(style, x, y, radius, name)


def path(style: str, d: str, name: str = "") -> Markup:
    """Return a line that shows its name when the pointer is over it."""
    title = Markup("<title>{}</title>").format(name) if name else ""
    return Markup('<path class="{}" d="{}">{}</path>').format(style, d, title)


def key(style: str) -> Markup:
    """Return the line sample of a style, for legends."""
    return Markup('<svg class="key" viewBox="0 0 24 14" aria-hidden="true">{}</svg>').format(
        path(f"line {style}", "M0 7h24")
    )


def _in_words(series: Series, show: Callable[[float], str]) -> str:
    first, last = (show(series.ys[end]) for end in (0, -1))
    return f"{series.name} {last}" if first == last else f"{series.name} from {first} to {last}"
