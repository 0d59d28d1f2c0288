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
from dataclasses import dataclass
from typing import Literal

from bertwright.report.comparison.rows import Mean, Results

Verdict = Literal["held", "not held", "undecided"]


@dataclass(frozen=True)
class Column:
    """What the figures of a column are, and which differences count."""

    figure: str
    """Its name, as it is printed."""
    margin: float
    """The least difference that counts, in the unit of the figures."""
    lower_is_better: bool = False
    """True of losses and perplexities."""
    floor: float | None = None
    """What is reached without the model. If no row is better than that by the margin, the column
    decides nothing.
    """
    floor_is: str = ""
    """How the floor is reached."""


@dataclass(frozen=True)
class Ordering:
    """A published claim: in `column`, the row `better` is better than the row `worse`."""

    column: str
    better: str
    worse: str
    claim: str = ""


def mean_and_sd(found: Mean | None) -> str:
    """Return the mean of a figure as text, with the standard deviation of several seeds."""
    if found is None:
        return "-"
    decimals = 1 if abs(found.value) >= 5 else 3  # percents, or bits and losses
    text = f"{found.value:.{decimals}f}"
    return text if found.sd is None else f"{text} ± {found.sd:.{decimals}f}"


def judge(ordering: Ordering, column: Column, results: Results) -> tuple[Verdict, str]:
    """Return whether an ordering holds in our figures, and why."""
    name = ordering.column
    better = results.mean(system=ordering.better, measure=name)
    worse = results.mean(system=ordering.worse, measure=name)
    if better is None or worse is None:
        both = {ordering.better: better, ordering.worse: worse}
        missing = [row for row, mean in both.items() if mean is None]
        return "undecided", f"not measured: {', '.join(missing)}"
    sign = -1.0 if column.lower_is_better else 1.0
    rows = {row.system for row in results.find(measure=name)}
    means = [mean.value for row in rows if (mean := results.mean(system=row, measure=name))]
    best = max(means, key=lambda mean: sign * mean)
    if column.floor is not None and sign * (best - column.floor) <= column.margin:
        return "undecided", (
            f"no row is better than {column.floor:g} ({column.floor_is}) by more than "
            f"{column.margin:g}; the best has {best:.4g}"
        )
    apart = sign * (better.value - worse.value)
    noise = math.sqrt(sum((mean.sd or 0.0) ** 2 / len(mean.rows) for mean in (better, worse)))
    needed = max(column.margin, 2 * noise)
    figures = f"{mean_and_sd(better)} and {mean_and_sd(worse)}"
    if abs(apart) <= needed:
        return "undecided", f"{figures}: a difference counts from {needed:.2g}"
    return "held" if apart > 0 else "not held", figures
