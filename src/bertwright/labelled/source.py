"""One labelled file: its lines, decompressed and decoded, and what of it cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from bertwright.errors import DataError
from bertwright.text.corpus.documents import read_text
from bertwright.text.corpus.files import COMPRESSED_SUFFIXES, TEXT_SUFFIXES, open_bytes
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tables import EXCEL_SEPARATOR, split_lines

BadRows = Literal["refuse", "skip"]
"""Whether rows that cannot be read stop the reading or are left out."""
HEAD_LINES = 200  # that are looked at before the form is decided
HEAD_CHARACTERS = 1 << 24  # after which no more lines are, so that memory has a bound


@dataclass
class Skipped:
    """How many examples were left out for one reason, and the first lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)


class Counts(dict[str, Skipped]):
    """Examples by what was done with them, or why."""

    def add(self, line: int, what: str) -> None:
        """Count the one at a line."""
        each = self.setdefault(what, Skipped())
        each.count += 1
        if len(each.lines) < 5:
            each.lines.append(line)


@dataclass
class BadRowLog:
    """Stops at a bad row, or leaves it out and counts it."""

    name: str
    policy: BadRows = "refuse"
    unit: str = "line"
    """What is counted: `line`, `row` or `question`."""
    never: str = ""
    """A reason for which nothing is left out: it is an error under any policy."""
    skipped: Counts = field(default_factory=Counts)
    """Left out, by the reason."""
    mended: Counts = field(default_factory=Counts)
    """Read otherwise than they are written, by a description."""
    warnings: list[str] = field(default_factory=list)

    def at(self, line: int) -> str:
        """`FILE, line 12`"""
        return f"{self.name}, {self.unit} {line:,}"

    def bad(self, line: int, reason: str, came: str, expected: str) -> None:
        """A row that cannot be read, for a `reason` in the same few words for all such rows: an
        error, or left out and counted."""
        if self.policy == "refuse" or reason == self.never:
            what = f"{reason}: {came}" if came else reason
            skip = "" if reason == self.never else ". To leave such rows out: --bad-rows skip"
            raise DataError(f"{self.at(line)}: {what}; expected {expected}{skip}")
        self.skipped.add(line, reason)

    def warn(self, message: str) -> None:
        """Add a warning about the file, once."""
        if (warning := f"{self.name}: {message}") not in self.warnings:
            self.warnings.append(warning)

    def summary(self) -> list[str]:
        """A sentence for each reason and each description."""
        left_out = {f"left out, {reason}": each for reason, each in self.skipped.items()}
        return [
            f"{self.name}: {each.count:,} {what} "
            f"({self.unit} {', '.join(f'{line:,}' for line in each.lines)}"
            f"{', ...' if each.count > len(each.lines) else ''})"
            for what, each in (self.mended | left_out).items()
        ]


class BadValue(ValueError):
    """A value of a row that cannot be used: the reason, what came, and what was expected."""


@dataclass(frozen=True)
class Rows:
    """Rows in memory, in place of a file; the name is for messages."""

    name: str
    rows: list[dict[str, Any]]


@dataclass
class Source:
    """An open file; of Parquet, which is no text, and of rows in memory no lines."""

    name: str
    path: Path
    head: list[str] = field(default_factory=list)
    """The first lines, without their ends."""
    rest: Iterator[str] = field(default_factory=lambda: iter(()))
    """The lines after `head`."""
    report: CorpusReport = field(default_factory=CorpusReport)
    """Malformed bytes that were replaced, known when all is read."""
    json: Any = None
    """The value of a JSON file, once it is read; the rows in memory."""
    separator: str | None = None
    """What the first line of a CSV file of Excel says: `;` of `sep=;`."""
    quotes: bool = True
    """Whether quoted fields of TSV are recognized; not where `--format tsv` says that it is TSV."""

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return next(line for line in self.head if line.strip())

    def lines(self) -> Iterator[tuple[int, str]]:
        """All lines with their numbers, from 1."""
        return enumerate(itertools.chain(self.head, self.rest), 1)

    def warnings(self) -> list[str]:
        """Warnings of zero bytes, and of bytes that are not UTF-8."""
        warnings = []
        if self.report.zero_bytes:
            count = self.report.zero_bytes
            warnings.append(f"{self.name}: {count:,} zero byte{'s' * (count != 1)} dropped")
        if self.report.invalid_utf8:
            warnings.append(
                f"{self.name}: {self.report.invalid_utf8:,} malformed UTF-8 sequences were "
                f"replaced by U+FFFD (first: {self.report.invalid_places[0]}). If it is of "
                "another encoding, as CSV of Excel is, convert it: "
                "iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW"
            )
        return warnings


def name_of(path: Path | Rows) -> str:
    """The name for messages."""
    if isinstance(path, Rows):
        return path.name
    return "standard input" if str(path) == "-" else str(path)


def suffix_of(path: Path) -> str:
    """The extension, in lower case; compression left aside. "" for standard input."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((each for each in reversed(suffixes) if each not in COMPRESSED_SUFFIXES), "")


def open_source(path: Path) -> Source:
    """Open a text file and read its first lines; DataError for one that is missing, a folder,
    empty, binary or not UTF-8."""
    name, report = name_of(path), CorpusReport()
    lines = _lines(open_bytes(path), name, report)
    head = list[str]()
    size = 0
    while len(head) < HEAD_LINES and size < HEAD_CHARACTERS:
        if (line := next(lines, None)) is None:
            break
        head.append(line)
        size += len(line)
    separator = None
    if head and (said := EXCEL_SEPARATOR.fullmatch(head[0])):
        separator, head[0] = said[1], ""  # an empty line is no row, and lines keep their numbers
    if not any(line.strip() for line in head):
        raise DataError(f"{name} is empty; expected labelled examples or texts")
    return Source(name, path, head, lines, report, separator=separator)


def refuse_missing(path: str) -> None:
    """Raise DataError for a file that is not there, before what takes long; not for `-`. One that
    is there is not opened: what a pipe gives would be lost."""
    there = _texts_in(Path(path)) if Path(path).is_dir() else Path(path).exists()
    if path != "-" and not there:
        open_bytes(Path(path)).close()


def _lines(stream: BinaryIO, name: str, report: CorpusReport) -> Iterator[str]:
    """Lines without their ends; the file is closed after the last."""
    with stream:
        yield from split_lines(read_text(stream, name, report), name)


def texts_of_folder(folder: Path, *, label: bool) -> Rows | None:
    """The texts of a folder's `.txt` files, None if it has none; their label is the folder below it
    that they are in, as `FOLDER/pos/7.txt`. With `label` DataError for one that is in no folder."""
    rows: list[dict[str, Any]] = []
    for path in _texts_in(folder):
        parts = path.relative_to(folder).parts
        if label and len(parts) == 1:
            raise DataError(f"{path} is in no folder of a class; expected {folder}/CLASS/FILE.txt")
        lines = _lines(open_bytes(path), str(path), CorpusReport())
        row = {"text": "\n".join(lines).strip(), "id": "/".join(parts)}
        rows.append(row | ({"label": parts[0]} if label else {}))
    return Rows(str(folder), rows) if rows else None


def _texts_in(folder: Path) -> list[Path]:
    """Its texts, but for hidden ones and those of hidden folders."""
    found = [path for path in folder.rglob("*") if suffix_of(path) in TEXT_SUFFIXES]
    return sorted(path for path in found if "/." not in f"/{path.relative_to(folder).as_posix()}")


def shorten(text: object) -> str:
    """`repr` of the first characters, for a message."""
    text = str(text)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def listed(names: Sequence[object], most: int = 20) -> str:
    """Names for a message, each shortened."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shorten, names[:most])) + more
