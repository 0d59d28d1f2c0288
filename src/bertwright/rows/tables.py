"""Read the rows of CSV and TSV, for corpora and for labelled files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain

from bertwright.errors import DataError
from bertwright.rows.lines import MAX_ROW_CHARACTERS

EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The first line that Excel may write to a CSV file, which names the separator."""


def csv_delimiter(line: str) -> str:
    """Return the delimiter of a CSV file (comma, semicolon or tab), detected from its first
    line.
    """
    _allow_long_fields()
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def _allow_long_fields() -> None:
    """Raise csv's limit, which is global and by default 128 KiB, less than a book."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))


def split_rows(
    lines: Iterator[str], name: str, *, quoted: bool, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file that are not empty, with the line that each begins at.

    The file is CSV if `quoted`; otherwise it is separated by tabs, and a quote is an ordinary
    character. The lines come without line ends; `name` is for messages. Without a `delimiter`, that
    of CSV is detected from the first line.

    Raises:
        DataError: a quote is not closed.
    """
    if not quoted:
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line)
        return
    head = [""]
    while not head[-1].strip() and (line := next(lines, None)) is not None:
        head.append(line)
    delimiter = delimiter or csv_delimiter(head[-1])
    _allow_long_fields()
    ended = (f"{line}\n" for line in chain(head[1:], lines))
    reader = csv.reader(ended, delimiter=delimiter, strict=True)
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name}, line {number:,}: {error}; expected CSV with closed quotes"
        ) from error
