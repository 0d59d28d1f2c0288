"""Whether the published orderings hold in our figures.

An ordering says that one row of a table is better than another in one column. With mean m and
sample standard deviation s of n seeds on each side, it is decided if the means are further apart
than

    max(margin, 2 * sqrt(s1^2 / n1 + s2^2 / n2))

where the margin belongs to the column and is chosen without looking at the result: the difference
that the size of the test file, or a single seed, cannot tell from chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["held", "not held", "undecided"]
Figures = Mapping[str, Mapping[str, Sequence[float]]]
"""Row -> column -> the figure of each seed."""


@dataclass(frozen=True)
class Column:
    """What the figures of a column are, and which differences count.

    Attributes:
        metric: its name, as it is printed.
        margin: the least difference that counts, in the unit of the figures.
        lower_is_better: true of losses and perplexities.
        floor: what is reached without the model. If no row is better than that by the margin, the
            column decides nothing.
        floor_is: how the floor is reached.
    """

    metric: str
    margin: float
    lower_is_better: bool = False
    floor: float | None = None
    floor_is: str = ""


@dataclass(frozen=True)
class Ordering:
    """A published claim: in `column`, the row `better` is better than the row `worse`."""

    column: str
    better: str
    worse: str
    claim: str = ""


def mean_and_sd(values: Sequence[float]) -> str:
    """Return the mean of a cell as text, with the standard deviation of several seeds."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    decimals = 1 if abs(mean) >= 5 else 3  # percents, or bits and losses
    text = f"{mean:.{decimals}f}"
    return f"{text} ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else text


def judge(ordering: Ordering, column: Column, figures: Figures) -> tuple[Verdict, str]:
    """Return whether an ordering holds in our figures, and why.

    Args:
        ordering: the claim.
        column: the column of the claim.
        figures: ours; a cell that was not measured may be missing or empty.
    """
    name = ordering.column
    better = figures.get(ordering.better, {}).get(name, ())
    worse = figures.get(ordering.worse, {}).get(name, ())
    missing = [
        row for row, values in ((ordering.better, better), (ordering.worse, worse)) if not values
    ]
    if missing:
        return "undecided", f"not measured: {', '.join(missing)}"
    sign = -1.0 if column.lower_is_better else 1.0
    means = [statistics.fmean(row[name]) for row in figures.values() if row.get(name)]
    best = max(means, key=lambda mean: sign * mean)
    if column.floor is not None and sign * (best - column.floor) <= column.margin:
        return "undecided", (
            f"no row is better than {column.floor:g} ({column.floor_is}) by more than "
            f"{column.margin:g}; the best has {best:.4g}"
        )
    apart = sign * (statistics.fmean(better) - statistics.fmean(worse))
    noise = math.sqrt(
        sum(statistics.variance(cell) / len(cell) for cell in (better, worse) if len(cell) > 1)
    )
    needed = max(column.margin, 2 * noise)
    both = f"{mean_and_sd(better)} and {mean_and_sd(worse)}"
    if abs(apart) <= needed:
        return "undecided", f"{both}: a difference counts from {needed:.2g}"
    return "held" if apart > 0 else "not held", both
