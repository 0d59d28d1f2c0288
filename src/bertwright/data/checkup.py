"""The findings of an examination of a corpus (`data/doctor.py`) or of the instances of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from bertwright.arrays import Int64s

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    level: Level
    name: str
    value: float | int | str
    message: str
    advice: str = ""
    """What the user can do; empty if nothing is wrong."""


@dataclass
class Checkup:
    """All findings of an examination."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of findings that are warnings."""
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
        """Add a finding; its advice is dropped if the level is `ok`."""
        self.findings.append(Finding(level, name, value, message, "" if level == "ok" else advice))


def grade(value: float, warning: float, error: float) -> Level:
    """Return the level of a value: an error above one threshold, a warning above the other."""
    return "error" if value > error else "warning" if value > warning else "ok"


def note_lengths(checkup: Checkup, lengths: Int64s, longest: int) -> None:
    """Note the number of instances and the distribution of their lengths."""
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
