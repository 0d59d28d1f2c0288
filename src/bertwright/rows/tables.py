"""Split CSV and TSV into rows.

CSV is quoted. Of TSV, `rows/quotes.py` decides from the first lines with a quote whether fields
are quoted; where they are not, a quote is an ordinary character. Fields that are quoted, and fields
that look quoted in a file where quotes are text, are counted in the log. A first line `sep=;`, as
Excel writes it, names the separator of CSV.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

from bertwright.errors import DataError, listed
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table, is_known, plain
from bertwright.rows.lines import MAX_ROW_CHARACTERS, TextLines
from bertwright.rows.quotes import AHEAD_CHARACTERS, AHEAD_LINES, Swallowed, are_quoted

EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The first line that Excel may write to a CSV file, which names the separator."""
WRONG_WIDTH = "wrong number of fields"
HEADER_AGAIN = "the header again"
Numbered = Iterator[tuple[int, str]]
Row = tuple[int, list[str]]
"""The line that a row begins at, and its cells."""

_LOOKS_QUOTED = re.compile(r'(?:^|\t)"[^"\t]*""[^\t]*"(?=\t|$)')
UNQUOTED = (
    "lines have fields quoted as in CSV, which are read without their quotes (to keep the quotes: "
    "--format tsv)"
)
LOOK_QUOTED = (
    "lines have fields that look quoted as in CSV, but other fields are not, so all are read with "
    "their quotes (to remove the quotes: --format csv)"
)
APART = (
    "lines from one quote to the next have all the fields of a row each, and are read as rows, "
    "with their quotes (if quotes are text in a file with tabs: --format tsv)"
)


def csv_delimiter(line: str) -> str:
    """Return the delimiter of a CSV file (comma, semicolon or tab), detected from its first
    line.
    """
    _allow_long_fields()
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def _allow_long_fields() -> None:
    """Raise csv's limit, which is global and by default 128 KiB, less than a book."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))


def delimited_table(
    lines: TextLines,
    form: Literal["csv", "tsv"],
    named: Sequence[str],
    log: BadRowLog,
    *,
    header: bool | None = None,
    quotes: bool = True,
) -> Table:
    """Return the table of CSV or TSV.

    Args:
        lines: the lines of the file, at least one of them with text.
        form: the format, unless the first line is Excel's `sep=;`, which is CSV.
        named: the columns that options name, or that training used.
        log: counts bad rows, and rows whose quotes are not read as they are written.
        header: whether the first row names the columns; None: if it has a known or named one.
        quotes: whether quoted fields of TSV are recognized.
    """
    excel = EXCEL_SEPARATOR.fullmatch(lines.head[0])
    delimiter = excel[1] if excel else None
    if excel is None and form == "csv":
        delimiter = csv_delimiter(lines.first)

    def split(numbered: Numbered, log: BadRowLog) -> Iterator[Row]:
        if excel:
            next(numbered)
        if delimiter is None:
            return split_tsv(numbered, log, quotes=quotes)
        return split_csv(numbered, log, delimiter, lines.head)

    def head() -> list[list[str]]:
        """Return the complete rows of the first lines, including the header."""
        first_rows: list[list[str]] = []
        with suppress(DataError):  # the first lines may end inside a row
            ahead = split(enumerate(lines.head, 1), BadRowLog(lines.name))
            first_rows += (row for _, row in ahead)
        return first_rows

    rows_of_file = split(lines.numbered(), log)
    first = next((row for row in rows_of_file if any(map(str.strip, row[1]))), None)
    if first is None:
        raise DataError(f"{lines.name} has no rows after its first line")
    columns = [cell.strip() for cell in first[1]]
    has_header = _has_header(columns, named) if header is None else header
    format, shown = "TSV" if delimiter is None else "CSV", ""
    if not has_header:
        columns = [str(number) for number in range(1, len(columns) + 1)]
        format += " without a header"
        shown = f" by number, because its first line, {listed(first[1])}, has no known name"

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        indices = [columns.index(name) for name in names]
        for number, row in rows_of_file if has_header else chain([first], rows_of_file):
            if has_header and row == first[1]:
                _header_again(number, log, expected=header)
            elif len(row) == len(columns):
                yield number, [row[index] for index in indices]
            elif any(map(str.strip, row)):
                expected = f"{len(columns)} as in the first line; separators in texts need quotes"
                log.bad(number, WRONG_WIDTH, str(len(row)), expected)

    def sample() -> list[list[Any]]:
        return [
            row
            for row in head()
            if len(row) == len(columns) and not (has_header and row == first[1])
        ]

    return Table(lines.name, columns, format, rows, log, sample, shown)


def _header_again(line: int, log: BadRowLog, expected: bool | None) -> None:
    """Skip a header between the rows; it is a bad row if labelled rows might be mixed up."""
    if expected:
        log.skipped.add(line, HEADER_AGAIN)
    else:
        log.bad(line, HEADER_AGAIN, "", "one header")


def _has_header(first: Sequence[str], named: Sequence[str]) -> bool:
    """Return whether the first row is a header: it contains a chosen or a known name. If columns
    are chosen by number, more than half of its names must be known.
    """
    names = {*map(plain, first)}
    if any(name in first or plain(name) in names for name in named if not name.isdecimal()):
        return True
    known = sum(map(is_known, first))
    return 2 * known > len(first) if any(map(str.isdecimal, named)) else known > 0


def split_csv(
    lines: Numbered, log: BadRowLog, delimiter: str, head: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield each row of CSV that is not empty, with the number of the line it begins at.

    Rows that a quote which is text joins into one (as in STS-B) are read apart; `head` are lines of
    the file that show how its rows look.

    Raises:
        DataError: a quote is not closed, or a row has over `MAX_ROW_CHARACTERS`.
    """
    swallowed = Swallowed(head, delimiter)
    reader = _CsvRows(lines, log.name, delimiter, "expected CSV with closed quotes")
    for number, row, own in reader:
        if len(own) > 1 and swallowed.are_rows(own):
            for at, line in enumerate(own, number):
                log.mended.add(at, APART)
                yield at, line.split(delimiter)
        else:
            yield number, row


class _CsvRows:
    """The rows of CSV that are not empty: the line that each begins at, its cells, its lines."""

    def __init__(self, lines: Numbered, name: str, delimiter: str, expected: str) -> None:
        self.lines, self.name, self.delimiter, self.expected = lines, name, delimiter, expected
        self.begin = 0
        """The line that the present row begins at."""
        self.own: list[str] = []
        """The lines of the present row."""

    def _ended(self) -> Iterator[str]:
        size = 0
        for number, line in self.lines:
            if not self.own:
                self.begin, size = number, 0
            self.own.append(line)
            size += len(line)
            if size > MAX_ROW_CHARACTERS:
                raise DataError(
                    f"{self.name}, line {self.begin:,}: the row has over {MAX_ROW_CHARACTERS:,} "
                    "characters, which must be held in memory; split it, or close its quote"
                )
            yield f"{line}\n"

    def __iter__(self) -> Iterator[tuple[int, list[str], list[str]]]:
        _allow_long_fields()
        reader = csv.reader(self._ended(), delimiter=self.delimiter, strict=True)
        try:
            for row in reader:
                own, self.own = self.own, []
                if row:
                    yield self.begin, row, own
        except csv.Error as error:
            raise DataError(
                f"{self.name}, line {self.begin:,}: {error}; {self.expected}"
            ) from error


def split_tsv(lines: Numbered, log: BadRowLog, *, quotes: bool = True) -> Iterator[Row]:
    """Yield each row of TSV that is not empty, with the number of the line it begins at.

    With `quotes`, quoted fields are recognized; otherwise a quote is an ordinary character.

    Raises:
        DataError: if the file has quoted fields and one of its quotes is not closed.
    """
    first = 0
    for number, line in lines:
        first = first or number
        if quotes and '"' in line:
            break
        if line:
            yield number, line.split("\t")
    else:
        return
    ahead, size = [line], len(line)
    while len(ahead) < AHEAD_LINES and size < AHEAD_CHARACTERS:
        if (following := next(lines, None)) is None:
            break
        ahead.append(following[1])
        size += len(following[1])
    rest = chain(enumerate(ahead, number), lines)
    whole = size < AHEAD_CHARACTERS and len(ahead) < AHEAD_LINES
    if are_quoted(ahead, from_start=number == first, whole=whole):
        yield from _unquoted(rest, log)
        return
    for number, line in rest:
        if '""' in line and _LOOKS_QUOTED.search(line):
            log.mended.add(number, LOOK_QUOTED)
        if line:
            yield number, line.split("\t")


def _unquoted(lines: Iterable[tuple[int, str]], log: BadRowLog) -> Iterator[Row]:
    def counted() -> Numbered:
        for number, line in lines:
            if '"' in line:
                log.mended.add(number, UNQUOTED)
            yield number, line

    expected = (
        "expected closed quotes, because the fields before are quoted as in CSV. If quotes are "
        "ordinary characters: --format tsv"
    )
    for number, row, _ in _CsvRows(counted(), log.name, "\t", expected):
        yield number, row
