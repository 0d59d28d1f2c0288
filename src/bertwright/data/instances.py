"""What a system trains on: the instances of one split of a built corpus, epoch by epoch; and what
an examination of them, or of the whole corpus (`data/doctor.py`), finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from bertwright.arrays import Int64s
from bertwright.data.batch import Batch
from bertwright.data.randomness import make_key, permutation

B = TypeVar("B", bound=Batch, covariant=True)
Level = Literal["ok", "warning", "error"]


class Instances(Protocol[B]):
    """Training sequences, each a function of (data, configuration, seed, epoch, position)."""

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that there can be."""

    def lengths(self, epoch: int) -> Int64s:
        """`[I]` tokens of every instance of an epoch, in the epoch's order.

        Raises:
            DataError: the split gives no instances.
        """

    def batch(self, epoch: int, positions: Int64s) -> B:
        """A batch of the instances at these positions of an epoch's order, longest first."""

    def check(self, checkup: Checkup) -> None:
        """Add findings about the instances of the first epoch: what can be wrong with them."""


class Shuffled:
    """Instances whose order is another one in every epoch."""

    def __init__(self, lengths: Int64s, longest: int, seed: int) -> None:
        """Take `[I]` tokens of every instance, those of the longest that there can be, and the
        seed of the order."""
        self.longest, self.seed = longest, seed
        self.unordered = lengths
        self._order: Callable[[int], Int64s] = lru_cache(maxsize=2)(self._shuffle)

    def lengths(self, epoch: int) -> Int64s:
        """See `Instances`."""
        return self.unordered[self._order(epoch)]

    def rows(self, epoch: int, positions: Int64s) -> Int64s:
        """Which instances are at these positions of an epoch's order, longest first."""
        rows = self._order(epoch)[positions]
        return rows[np.argsort(-self.unordered[rows], kind="stable")]

    def check(self, checkup: Checkup) -> None:
        """See `Instances`."""
        note_lengths(checkup, self.unordered, self.longest)

    def _shuffle(self, epoch: int) -> Int64s:
        return permutation(make_key("order", self.seed, epoch), len(self.unordered))


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    name: str
    value: float | int | str
    message: str
    advice: str = ""
    """What to do; empty where all is well."""


@dataclass
class Checkup:
    """All findings of an examination."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings are warnings."""
        return sum(finding.level == "warning" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the findings as a mapping, for JSON."""
        return {
            "errors": self.errors,
            "warnings": self.warnings,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def note(
        self, level: Level, name: str, value: float | int | str, message: str, advice: str = ""
    ) -> None:
        """Add a finding; advice is kept only where something is wrong."""
        self.findings.append(Finding(level, name, value, message, "" if level == "ok" else advice))


def grade(value: float, warning: float, error: float) -> Level:
    """`error` above the one threshold, `warning` above the other."""
    return "error" if value > error else "warning" if value > warning else "ok"


def note_lengths(checkup: Checkup, lengths: Int64s, longest: int) -> None:
    """The number of instances, and how many of them are how long."""
    edges = np.unique(np.linspace(0, longest, 9).astype(int))
    heights, _ = np.histogram(lengths, edges + 0.5)
    bins = zip(edges[:-1] + 1, edges[1:], heights / max(1, len(lengths)), strict=True)
    checkup.note(
        "ok" if len(lengths) else "error",
        "instances",
        len(lengths),
        f"{len(lengths):,} training instances in an epoch; their lengths in tokens: "
        + ", ".join(f"{low}-{high} {share:.1%}" for low, high, share in bins),
        "there is nothing to train on: add text",
    )
