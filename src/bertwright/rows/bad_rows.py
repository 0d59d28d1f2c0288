"""Count the rows that cannot be read, or are read differently from how they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.errors import DataError

BadRows = Literal["refuse", "skip"]
"""Whether a row that cannot be read is an error (`refuse`) or is skipped and counted (`skip`)."""


@dataclass
class Skipped:
    """The number of examples skipped for one reason, and the first of their lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)


class RowCounts(dict[str, Skipped]):
    """Counts examples by what was done with them, or why."""

    def add(self, line: int, what: str) -> None:
        """Count the example at a line."""
        skipped = self.setdefault(what, Skipped())
        skipped.count += 1
        if len(skipped.lines) < 5:
            skipped.lines.append(line)


@dataclass
class BadRowLog:
    """Raises an error for a bad row, or skips and counts it."""

    name: str
    policy: BadRows = "refuse"
    option: bool = True
    """Whether the verb has the option `--bad-rows`, for messages."""
    unit: str = "line"
    """The unit in which places are counted: `line`, `row` or `question`."""
    never: str = ""
    """A reason that is always an error, even with `--bad-rows skip`."""
    skips_empty: bool = False
    """Whether a row without a text is skipped and counted, as a blank line of plain text is."""
    skipped: RowCounts = field(default_factory=RowCounts)
    """The skipped rows, by reason."""
    mended: RowCounts = field(default_factory=RowCounts)
    """The rows that were read differently from how they are written, by description."""
    warnings: list[str] = field(default_factory=list)

    def at(self, line: int) -> str:
        """Return a place for messages, such as `FILE, line 12`."""
        return f"{self.name}, {self.unit} {line:,}"

    def bad(self, line: int, reason: str, came: str, expected: str) -> None:
        """Raise DataError for a row that cannot be read, or skip and count it.

        The `reason` is the same short phrase for all rows of a kind; `came` and `expected` complete
        the message.
        """
        if self.policy == "refuse" or reason == self.never:
            what = f"{reason}: {came}" if came else reason
            may_skip = self.option and reason != self.never
            skip = ". To skip such rows: --bad-rows skip" if may_skip else ""
            raise DataError(f"{self.at(line)}: {what}; expected {expected}{skip}")
        self.skipped.add(line, reason)

    def warn(self, message: str) -> None:
        """Add a warning about the file, unless it was added before."""
        if (warning := f"{self.name}: {message}") not in self.warnings:
            self.warnings.append(warning)

    def summary(self) -> list[str]:
        """Return a sentence for each kind of row that was skipped or corrected."""
        left_out = {f"left out, {reason}": each for reason, each in self.skipped.items()}
        return [
            f"{self.name}: {each.count:,} {what} "
            f"({self.unit} {', '.join(f'{line:,}' for line in each.lines)}"
            f"{', ...' if each.count > len(each.lines) else ''})"
            for what, each in (self.mended | left_out).items()
        ]


class BadValue(ValueError):
    """A value of a row that cannot be used; its arguments are the reason, the value and what was
    expected.
    """
