"""Quoted fields in TSV. GLUE's files have quotes as text, pandas and Excel quote as in CSV.

A file is unquoted where every field with a quote, from the first on, is quoted as the csv module
does it, and one at least shows it: it holds a doubled quote, a tab or a line end, or all texts of
the file are quoted. Else a quote is a character, and fields that look quoted are counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.source import BadRowLog
from bertwright.text.tables import MAX_ROW_CHARACTERS

_AHEAD_LINES, _AHEAD_CHARACTERS = 2000, 1 << 22  # looked at from the first quote on
_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^"\t\n]*))(\t|\n|\Z)')
_OPEN = re.compile(r'"[^"]*(?:""[^"]*)*\Z')  # a field that ends behind what was looked at
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
    while len(ahead) < _AHEAD_LINES and size < _AHEAD_CHARACTERS:
        if (line := next(lines, None)) is None:  # type: ignore[assignment]
            break
        ahead.append(line)
        size += len(line)
    rest = enumerate(chain(ahead, lines), number)
    whole = size < _AHEAD_CHARACTERS and len(ahead) < _AHEAD_LINES
    if _are_quoted(ahead, from_start=number == 1, whole=whole):
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


def _are_quoted(lines: Sequence[str], *, from_start: bool, whole: bool) -> bool:
    """Whether every quote of the lines is one of a quoted field, in rows of one width."""
    text = "\n".join(lines)
    at, width, widths = 0, 1, set[int]()
    shown, all_quoted, any_quoted = False, from_start, False
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None:
            if whole or not _OPEN.match(text, at):
                return False
            break
        quoted, bare, end = field.groups()
        if quoted is not None:
            any_quoted = True
            shown = shown or any(mark in quoted for mark in ('""', "\t", "\n"))
        elif bare and not re.fullmatch(r"[-+\d.eE]+", bare):
            all_quoted = False
        if end == "\t":
            width += 1
        else:
            if width > 1 or quoted or bare:
                widths.add(width)
            width = 1
        at = field.end()
    return len(widths) == 1 and (shown or (all_quoted and any_quoted))
