"""What is left out of a file of examples, and what is told about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bertwright.errors import DataError

BadRows = Literal["refuse", "skip"]
SHOWN = 60
"""Characters of a text that a message shows, at most."""
_LINES = 5


@dataclass
class Skipped:
    """How many examples were left out for one reason, and the first lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)


@dataclass
class BadRowLog:
    """Refuses a bad row, or leaves it out and counts it."""

    name: str
    """Of the file."""
    policy: BadRows = "refuse"
    unit: str = "line"
    """What `lines` count: `line`, `row` or `question`."""
    skipped: dict[str, Skipped] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def place(self, line: int) -> str:
        """`FILE, line 12`"""
        return f"{self.name}, {self.unit} {line:,}"

    def bad(self, line: int, reason: str, message: str) -> None:
        """A row that cannot be read.

        Args:
            reason: a few words that are equal for all such rows, as `empty text`.
            message: what is wrong and what to do, without the place.

        Raises:
            DataError: the policy is `refuse`.
        """
        if self.policy == "refuse":
            raise DataError(
                f"{self.place(line)}: {message}. To leave such rows out: --bad-rows skip"
            )
        self.leave_out(line, reason)

    def leave_out(self, line: int, reason: str) -> None:
        """Count a row that is left out whatever the policy."""
        skipped = self.skipped.setdefault(reason, Skipped())
        skipped.count += 1
        if len(skipped.lines) < _LINES:
            skipped.lines.append(line)

    def count(self, reason: str) -> int:
        """How many were left out for a reason so far."""
        return self.skipped[reason].count if reason in self.skipped else 0

    def summary(self) -> list[str]:
        """A sentence for each reason."""
        return [
            f"{self.name}: {each.count:,} left out, {reason} "
            f"({self.unit} {', '.join(f'{line:,}' for line in each.lines)}"
            f"{', ...' if each.count > len(each.lines) else ''})"
            for reason, each in self.skipped.items()
        ]


def shorten(text: object) -> str:
    """`repr` of the first characters, for a message."""
    text = str(text)
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")


def listed(names: Sequence[object], most: int = 20) -> str:
    """Names for a message, each shortened."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shorten, names[:most])) + more
