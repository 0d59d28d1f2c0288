"""Rows of TSV, with their quotes as `text/quotes.py` finds them; fields that are quoted, or that
look quoted where a quote is a character, are counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.source import BadRowLog
from bertwright.text.quotes import AHEAD_CHARACTERS, AHEAD_LINES, are_quoted
from bertwright.text.tables import MAX_ROW_CHARACTERS

_LOOKS_QUOTED = re.compile(r'(?:^|\t)"[^"\t]*""[^\t]*"(?=\t|$)')
UNQUOTED = (
    "lines have fields quoted as in CSV, which are read without their quotes (as they are: "
    "--format tsv)"
)
LOOK_QUOTED = (
    "lines have fields that look quoted as in CSV beside others that are not, so all are read as "
    "they are (without their quotes: --format csv)"
)


def split_tsv(
    lines: Iterator[str], log: BadRowLog, *, quotes: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of TSV that are not empty, with the line that each begins at.

    With `quotes` quoted fields are recognized; otherwise a quote is a character.

    Raises:
        DataError: a quote that is not closed, in a file of quoted fields.
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
            f"{log.name}, line {begin or last:,}: {error}; expected closed quotes, as the quoted "
            "fields before are as in CSV. Where a quote is a character: --format tsv"
        ) from error
