"""Open one labelled file: decompress and decode its lines, and log what cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from bertwright.errors import DataError
from bertwright.rows.lines import ByteCounts, read_text, split_lines
from bertwright.rows.open import name_of, open_bytes, suffix_of
from bertwright.rows.tables import EXCEL_SEPARATOR
from bertwright.text.corpus.find import TEXT_SUFFIXES

BadRows = Literal["refuse", "skip"]
"""Whether a row that cannot be read is an error (`refuse`) or is skipped and counted (`skip`)."""
HEAD_LINES = 200  # how many lines are read to detect the format
HEAD_CHARACTERS = 1 << 24  # the most characters of these lines, which bounds the memory


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
            skip = "" if reason == self.never else ". To skip such rows: --bad-rows skip"
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


@dataclass(frozen=True)
class Rows:
    """Rows in memory that are read in place of a file; the name is for messages."""

    name: str
    rows: list[dict[str, Any]]
    report: ByteCounts = field(default_factory=ByteCounts)
    """What was malformed in the files that the rows are from."""
    warnings: tuple[str, ...] = ()
    """Warnings of what is not among the rows."""


@dataclass
class Source:
    """An opened file. Parquet files and rows in memory have no lines."""

    name: str
    path: Path
    head: list[str] = field(default_factory=list)
    """The first lines, without their line ends."""
    rest: Iterator[str] = field(default_factory=lambda: iter(()))
    """The lines after `head`."""
    report: ByteCounts = field(default_factory=ByteCounts)
    """Counts malformed bytes that were replaced; complete when all lines are read."""
    json: Any = None
    """The parsed value of a JSON file, once it is read; or the rows in memory."""
    separator: str | None = None
    """The separator given by the first line of a CSV file from Excel: `;` for `sep=;`."""
    quotes: bool = True
    """Whether quoted fields of TSV are recognized. They are not with `--format tsv`."""

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return next(line for line in self.head if line.strip())

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield all lines with their numbers, from 1."""
        return enumerate(itertools.chain(self.head, self.rest), 1)

    def warnings(self) -> list[str]:
        """Return warnings of zero bytes and of bytes that are not UTF-8."""
        return [f"{self.name}: {remark}" for remark in self.report.byte_remarks()]


def open_source(path: Path) -> Source:
    """Open a text file and read its first lines.

    Raises:
        DataError: the file is missing, a folder, empty, binary or not UTF-8.
    """
    name, report = name_of(path), ByteCounts()
    lines = lines_of(open_bytes(path), name, report)
    head = list[str]()
    size = 0
    while len(head) < HEAD_LINES and size < HEAD_CHARACTERS:
        if (line := next(lines, None)) is None:
            break
        head.append(line)
        size += len(line)
    separator = None
    if head and (match := EXCEL_SEPARATOR.fullmatch(head[0])):
        separator, head[0] = match[1], ""  # an empty line is skipped and keeps the line numbers
    if not any(line.strip() for line in head):
        raise DataError(f"{name} is empty; expected labelled examples or texts")
    return Source(name, path, head, lines, report, separator=separator)


def refuse_missing(path: str) -> None:
    """Raise DataError early if a file does not exist. An existing file is not opened, because
    reading from a pipe would lose its content; `-` (standard input) is not checked.
    """
    exists = texts_in(Path(path)) if Path(path).is_dir() else Path(path).exists()
    if path != "-" and not exists:
        open_bytes(Path(path)).close()


def lines_of(stream: BinaryIO, name: str, report: ByteCounts) -> Iterator[str]:
    """Yield the lines without their line ends, and close the file after the last."""
    with stream:
        yield from split_lines(read_text(stream, name, report), name)


def texts_in(folder: Path) -> list[Path]:
    """Return the text files of a folder, without hidden files and those in hidden folders."""
    paths = [path for path in folder.rglob("*") if suffix_of(path) in TEXT_SUFFIXES]
    return sorted(path for path in paths if "/." not in f"/{path.relative_to(folder).as_posix()}")


def other_kind(name: str, what: str, kind: str) -> DataError:
    """Return the error for a file that is for classification, and not for this kind of task."""
    error = DataError(f"{name} has {what}; this looks like classification, not {kind}")
    error.retry = (kind, "classification")
    return error
