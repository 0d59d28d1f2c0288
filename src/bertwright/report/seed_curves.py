"""Curves over seeds: one thin line a seed, and their mean; baselines as levels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertwright.report.numbers import baseline_title, direction, is_fraction, number, short, title
from bertwright.report.plots import Series, chart
from bertwright.report.verdict import Results, baselines

MOST_MARKS = 12
"""A line of more points is drawn without marks."""
Record = Mapping[str, Any]
Line = tuple[list[float], list[float]]
"""Where, and what was measured there."""


def curves(results: Results, records: Sequence[Record], prefix: str = "") -> str:
    """The main metric and the losses, if they were measured; `prefix` begins a task's keys."""
    figures = "".join(_charts(results, records, prefix))
    if not figures:
        return ""
    return f'<h2>Curves over seeds</h2><div class="charts">{figures}</div>'


def mean_line(lines: Sequence[Line]) -> Line:
    """The mean of lines where all of them are, each drawn straight between its points."""
    lines = [line for line in lines if line[0]]
    if not lines:
        return [], []
    low, high = max(xs[0] for xs, _ in lines), min(xs[-1] for xs, _ in lines)
    places = sorted({x for xs, _ in lines for x in xs if low <= x <= high})
    return places, [sum(_at(line, x) for line in lines) / len(lines) for x in places]


def _charts(results: Results, records: Sequence[Record], prefix: str) -> Iterator[str]:
    main = str(results.get("main", ""))
    dev = [record for record in records if record.get("split") == "dev"]
    train = [record for record in records if record.get("split") == "train"]
    fallen = {seed.get("seed") for seed in results.get("seeds") or [] if seed.get("degenerate")}
    others = baselines(results, main).items()
    best_other = max(others, key=lambda item: direction(main) * item[1], default=None)
    levels = []
    if best_other:  # one level: a second far below would leave the seeds no height
        name, level = best_other
        levels = [Series(baseline_title(name), [], [level], "baseline")]
    x_key = "epoch" if dev and all(number(r.get("epoch")) is not None for r in dev) else "step"
    for split, key, name, where in (
        (dev, prefix + main, f"Dev {title(main).removesuffix(' correlation')}", x_key),
        (train, prefix + "loss", "Training loss", "step"),
        (dev, prefix + "loss", "Dev loss", x_key),
    ):
        found = _lines(split, where, key)
        drawn = _series(found, fallen)
        is_main = key == prefix + main
        if drawn and is_main:
            drawn = [*levels, *drawn]

        def show_y(value: float) -> str:
            return f"{100 * value:.3g}%" if is_fraction(main) and value <= 1 else f"{value:.3g}"

        # lines all at one height have no range of their own
        is_flat = len({y for each in drawn for y in each.ys}) == 1
        y_format = show_y if is_main else "{:.3g}".format
        yield chart(name, drawn, f"{where}s", short, y_format, from_zero=is_flat)
    best = results.get("best_seed")
    rate = _lines([r for r in train if r.get("seed") in (best, None)], "step", "learning_rate")
    if rate:
        line = Series("learning rate", *next(iter(rate.values())), legend="")
        yield chart("Learning rate", [line], "steps", short, "{:.2g}".format, from_zero=True)


def _lines(records: Sequence[Record], x_key: str, key: str) -> dict[object, Line]:
    """What each seed measured of one key, in the order of x."""
    found: dict[object, list[tuple[float, float]]] = {}
    for record in records:
        x, y = number(record.get(x_key)), number(record.get(key))
        if x is not None and y is not None:
            found.setdefault(record.get("seed"), []).append((x, y))
    return {
        seed: ([x for x, _ in sorted(points)], [y for _, y in sorted(points)])
        for seed, points in found.items()
    }


def _series(lines: Mapping[object, Line], fallen: set[object]) -> list[Series]:
    """Thin lines and their mean; one seed alone is drawn as a whole line."""
    if len(lines) == 1:
        ((seed, line),) = lines.items()
        return [Series(_name(seed, fallen), *line, _style(line))]
    drawn = [
        Series(_name(seed, fallen), *line, "fallen", "degenerate")
        if seed in fallen
        else Series(_name(seed, fallen), *line, "seed", "seed")
        for seed, line in lines.items()
    ]
    mean = mean_line(list(lines.values()))
    return [*drawn, Series("mean", *mean, _style(mean))] if drawn else []


def _style(line: Line) -> str:
    """Few points are measurements worth a mark, many are a curve."""
    return "dev" if len(line[0]) <= MOST_MARKS else "mean"


def _name(seed: object, fallen: set[object]) -> str:
    return f"seed {seed}" + (", degenerate" if seed in fallen else "")


def _at(line: Line, x: float) -> float:
    """The height of a line at x, which is between its ends."""
    xs, ys = line
    right = bisect_left(xs, x)
    if xs[right] == x:
        return ys[right]
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + share * (ys[right] - ys[right - 1])
