"""Decide whether the fields of a TSV file are quoted as in CSV.

In GLUE's files a quote is text; pandas and Excel quote fields as in CSV. A file is quoted if every
field with a quote, from the first on, is quoted as the csv module does it, and there is evidence: a
quoted field with a doubled quote, a tab or a line end, or all texts of the file being quoted.
Otherwise a quote is an ordinary character.

In STS-B some texts begin with a quote, and a later one ends with a quote, so that both and the rows
between look like one field (`Swallowed`): in such a file too quotes are text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

AHEAD_LINES, AHEAD_CHARACTERS = 2000, 1 << 22
"""How much of a file is examined, from the first line with a quote on."""
_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^"\t\n]*))(\t|\n|\Z)')
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
_OPEN = re.compile(r'"[^"]*(?:""[^"]*)*\Z')  # a field that ends after the examined lines


def are_quoted(lines: Sequence[str], *, from_start: bool, whole: bool) -> bool:
    """Return whether every quote of the lines belongs to a quoted field, in rows of equal width.

    `from_start` says that the lines begin at the file's beginning, `whole` that they are all of it.
    """
    text = "\n".join(lines)
    at, begin, width, widths = 0, 0, 1, set[int]()
    swallowed = Swallowed(lines, "\t")
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
            if swallowed.are_rows(text[begin : field.start(3)].split("\n")):
                return False
            begin, width = field.end(), 1
        at = field.end()
    return len(widths) == 1 and (shown or (all_quoted and any_quoted))


class Swallowed:
    """Finds rows that a quote which is text joins into one.

    Line ends in a quoted field leave lines that are no rows. Where each line of a row has all the
    fields of a row, a number in each column of numbers, and a label of other rows in each column of
    labels, they are rows.
    """

    def __init__(self, lines: Sequence[str], separator: str) -> None:
        """Learn from lines of the file how rows look; those without a quote show it."""
        rows = [line.split(separator) for line in lines if line and '"' not in line]
        self.separator, self.width = separator, len(rows[-1]) if rows else 0
        rows = [row for row in rows if len(row) == self.width]
        self.allowed: dict[int, set[str] | None] = {}  # of each such column; None: any number
        for at, cells in enumerate(zip(*rows, strict=True)) if len(rows) > 2 else ():
            if all(_NUMBER.fullmatch(cell) for cell in cells[1:]):  # the first may be a header
                self.allowed[at] = None
            elif 2 * len({*cells[1:]}) <= len(rows):
                self.allowed[at] = {*cells}

    def are_rows(self, lines: Sequence[str]) -> bool:
        """Return whether the lines of one row are rows of their own."""
        return len(lines) > 1 and bool(self.allowed) and all(map(self._is_row, lines))

    def _is_row(self, line: str) -> bool:
        cells = line.split(self.separator)
        if len(cells) != self.width:
            return False
        seen = [(cells[at], values) for at, values in self.allowed.items() if '"' not in cells[at]]
        return bool(seen) and all(
            bool(_NUMBER.fullmatch(cell)) if values is None else cell in values
            for cell, values in seen
        )
