"""The results of a comparison as rows: each is a figure of one system or baseline, with one seed.

The page of a comparison, `results.csv`, `--json` and the table in Python read the same rows. A
figure over several seeds is the mean of its rows (`Results.mean`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from bertwright.errors import DataError
from bertwright.report.read import read_object
from bertwright.report.verdict import RESULTS

Way = Literal["frozen", "tuned", "random", "baseline"]
WAYS: Mapping[str, str] = {
    "frozen": "frozen features",
    "tuned": "fine-tuned",
    "random": "random weights, fine-tuned",
    "baseline": "baseline",
}
"""The ways to predict a task, with their names for users: three of a system, of which `random` is
the one to beat, and that of the baselines.
"""


@dataclass(frozen=True)
class Row:
    """A figure of one system or baseline, with one seed."""

    measure: str
    """What was measured: `pretrain` (the pre-training itself), `text`, `pairs`, `words`, `senses`,
    or `task`; `examples` of what was learned have a row only if they failed.
    """
    system: str
    """The name of the system, or of the baseline."""
    title: str
    """The name for users."""
    seed: int
    way: str = ""
    """Of a task: one of `WAYS`."""
    fraction: float | None = None
    """Of a task: the fraction of the training examples."""
    test: str = ""
    """The name of the file of minimal pairs, or of the test of words."""
    metric: str = ""
    value: float | None = None
    low: float | None = None
    """The lower end of the 95 % interval of the value; None: it has none."""
    high: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of a task: all its metrics."""
    reason: str = ""
    """Why there is no value."""
    failed: bool = False
    """Whether this part of the comparison failed, for the reason above."""
    run: str = ""
    """The folder of the run, in that of the comparison."""
    page: bool | None = None
    """Whether the run has a page; None: nothing was trained."""
    minutes: float | None = None
    """The minutes that the training could take at most; None: tokens set its length."""
    seconds: float | None = None
    """The seconds of training."""
    seconds_of_evaluation: float | None = None
    waited: float | None = None
    """The fraction of its time for which the training waited for cores that other processes used;
    None: unknown.
    """
    parameters: float | None = None
    tokens: float | None = None
    """The number of tokens that pre-training read."""
    passes: float | None = None
    """The number of passes over the text, of systems that are trained in passes."""
    examples: int | None = None
    """The number of labelled examples that were trained on."""
    of_examples: int | None = None
    """The number of labelled examples of the fraction."""
    epochs: float | None = None
    rate: float | None = None
    """The learning rate; None: it was trained without steps."""
    degenerate: bool | None = None
    """Whether the prediction is the same for all examples."""

    def flat(self) -> dict[str, Any]:
        """Return the row without mappings: `metrics.NAME` for each metric."""
        found = asdict(self)
        metrics = found.pop("metrics")
        return found | {f"metrics.{name}": value for name, value in metrics.items()}


@dataclass(frozen=True)
class Mean:
    """A figure over all seeds: means of the value and of the ends of its interval."""

    rows: Sequence[Row]
    """The rows with a value, one for each seed; at least one."""

    @cached_property
    def value(self) -> float:
        """The mean of the value over the rows."""
        return fmean(self._all("value"))

    @cached_property
    def low(self) -> float | None:
        """The mean of the lower ends; None: one is unknown."""
        ends = self._all("low")
        return fmean(ends) if len(ends) == len(self.rows) else None

    @cached_property
    def high(self) -> float | None:
        """The mean of the upper ends; None: one is unknown."""
        ends = self._all("high")
        return fmean(ends) if len(ends) == len(self.rows) else None

    @property
    def sd(self) -> float | None:
        """The standard deviation over the seeds; None: there is one seed."""
        return stdev(self._all("value")) if len(self.rows) > 1 else None

    @property
    def first(self) -> Row:
        """The row of the first seed."""
        return self.rows[0]

    def mean(self, name: str) -> float | None:
        """Return the mean of another field of the rows; None: no row has it."""
        found = self._all(name)
        return fmean(found) if found else None

    def is_ahead_of(self, other: Mean) -> bool:
        """Return whether the whole interval is above that of the other."""
        return self.low is not None and other.high is not None and self.low > other.high

    def _all(self, name: str) -> list[float]:
        return [each for row in self.rows if (each := getattr(row, name)) is not None]


@dataclass(frozen=True)
class Results:
    """The content of `results.json`."""

    facts: Mapping[str, Any]
    """All but the rows."""
    rows: Sequence[Row]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Results:
        """Return the results in the content of `results.json`."""
        facts = dict(content)
        return cls(facts, [Row(**row) for row in facts.pop("rows")])

    @property
    def fractions(self) -> list[float]:
        """The fractions of the labels, in ascending order."""
        return sorted(set(self.facts["settings"]["fractions"]))

    @property
    def systems(self) -> list[dict[str, Any]]:
        """The systems that are compared: name, title and other facts of each."""
        found: list[dict[str, Any]] = self.facts["systems"]
        return found

    def find(self, **wanted: Any) -> list[Row]:
        """Return the rows whose fields have the values that are given."""
        return [
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]

    def mean(self, **wanted: Any) -> Mean | None:
        """Return the figure of the rows that `find` returns; None: there is no value."""
        found = [row for row in self.find(**wanted) if row.value is not None]
        return Mean(found) if found else None

    def of_task(self, system: str, way: str, fraction: float | None = None) -> Mean | None:
        """Return a result of the task; by default that with the most labels.

        Fits that predict one class for all examples are no results.
        """
        fits = self._fits(system, way, fraction)
        found = [row for row in fits if row.value is not None and not row.degenerate]
        return Mean(found) if found else None

    def of_one_class(self, system: str, way: str, fraction: float | None = None) -> list[Row]:
        """Return the fits of the task that predict one class for all examples."""
        return [row for row in self._fits(system, way, fraction) if row.degenerate]

    def _fits(self, system: str, way: str, fraction: float | None) -> list[Row]:
        most = self.fractions[-1] if fraction is None else fraction
        return self.find(measure="task", system=system, way=way, fraction=most)

    def baselines(self, fraction: float | None = None) -> dict[str, Mean]:
        """Return the results of the baselines by name; by default those with the most labels."""
        most = self.fractions[-1] if fraction is None else fraction
        wanted = {"measure": "task", "way": "baseline", "fraction": most}
        names = dict.fromkeys(row.system for row in self.find(**wanted))
        found = {name: self.mean(system=name, **wanted) for name in names}
        return {name: mean for name, mean in found.items() if mean is not None}


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of flat rows: the fields of a row in their order, and then the metrics."""
    named = [each.name for each in fields(Row) if each.name != "metrics"]
    return list(dict.fromkeys([*named, *(name for row in rows for name in row)]))


def read_results(folder: Path) -> Results:
    """Return the results of the comparison in a folder.

    Raises:
        DataError: there are no results yet, or they are damaged.
    """
    content = read_object(folder / RESULTS)
    if not content:
        raise DataError(
            f"{folder} has no {RESULTS} yet: it is written at the end of each system; let the "
            "comparison go on"
        )
    try:
        return Results.of(content)
    except (TypeError, LookupError) as error:
        raise DataError(
            f"{folder / RESULTS} is damaged ({error}); remove it, and the same command of the "
            "comparison writes it again"
        ) from error
