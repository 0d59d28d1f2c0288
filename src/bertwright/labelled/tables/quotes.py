"""Split TSV into rows, with or without CSV quoting, and CSV.

`text/quotes.py` decides from the first lines of TSV whether fields are quoted. Fields that are
quoted, and fields that look quoted in a file where quotes are text, are counted and reported.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.source import BadRowLog
from bertwright.rows.lines import MAX_ROW_CHARACTERS
from bertwright.rows.quotes import AHEAD_CHARACTERS, AHEAD_LINES, Swallowed, are_quoted
from bertwright.rows.tables import csv_delimiter, split_rows

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


def split_csv(
    lines: Iterator[str], log: BadRowLog, delimiter: str | None, head: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of CSV that is not empty, with the number of the line it begins at.

    Rows that a quote which is text joins into one (as in STS-B) are read apart.

    Raises:
        DataError: a quote is not closed.
    """
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    delimiter = delimiter or csv_delimiter(next(filter(str.strip, head), ""))
    swallowed = Swallowed(head, delimiter)
    for number, row in split_rows(noted(), log.name, quoted=True, delimiter=delimiter):
        own = taken[next(at for at, line in enumerate(taken) if line.strip()) :]
        taken.clear()
        if swallowed.are_rows(own):
            for at, line in enumerate(own, number):
                log.mended.add(at, APART)
                yield at, line.split(delimiter)
        else:
            yield number, row


def split_tsv(
    lines: Iterator[str], log: BadRowLog, *, quotes: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of TSV that is not empty, with the number of the line it begins at.

    With `quotes`, quoted fields are recognized; otherwise a quote is an ordinary character.

    Raises:
        DataError: if the file has quoted fields and one of its quotes is not closed.
    """
    number = 0
    for number, line in enumerate(lines, 1):
        if quotes and '"' in line:
            break
        if line:
            yield number, line.split("\t")
    else:
        return
    ahead, size = [line], len(line)
    while len(ahead) < AHEAD_LINES and size < AHEAD_CHARACTERS:
        if (line := next(lines, None)) is None:  # type: ignore[assignment]
            break
        ahead.append(line)
        size += len(line)
    rest = enumerate(chain(ahead, lines), number)
    whole = size < AHEAD_CHARACTERS and len(ahead) < AHEAD_LINES
    if are_quoted(ahead, from_start=number == 1, whole=whole):
        yield from _unquoted(rest, log)
        return
    for number, line in rest:
        if '"' in line and _LOOKS_QUOTED.search(line):
            log.mended.add(number, LOOK_QUOTED)
        if line:
            yield number, line.split("\t")


def _unquoted(lines: Iterator[tuple[int, str]], log: BadRowLog) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))
    last = begin = 0

    def ended() -> Iterator[str]:
        nonlocal last
        for last, line in lines:
            if '"' in line:
                log.mended.add(last, UNQUOTED)
            yield f"{line}\n"

    reader = csv.reader(ended(), delimiter="\t", strict=True)
    try:
        for row in reader:
            begin = begin or last
            if row:
                yield begin, row
            begin = last + 1
    except csv.Error as error:
        raise DataError(
            f"{log.name}, line {begin or last:,}: {error}; expected closed quotes, because the "
            "fields before are quoted as in CSV. If quotes are ordinary characters: --format tsv"
        ) from error
