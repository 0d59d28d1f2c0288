"""Decide whether the fields of a TSV file are quoted as in CSV.

In GLUE's files a quote is text; pandas and Excel quote fields as in CSV. A file is quoted if every
field with a quote, from the first on, is quoted as the csv module does it, and there is evidence: a
quoted field with a doubled quote, a tab or a line end, or all texts of the file being quoted.
Otherwise a quote is an ordinary character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

AHEAD_LINES, AHEAD_CHARACTERS = 2000, 1 << 22
"""How much of a file is examined, from the first line with a quote on."""
_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^"\t\n]*))(\t|\n|\Z)')
_OPEN = re.compile(r'"[^"]*(?:""[^"]*)*\Z')  # a field that ends after the examined lines


def are_quoted(lines: Sequence[str], *, from_start: bool, whole: bool) -> bool:
    """Return whether every quote of the lines belongs to a quoted field, in rows of equal width.

    `from_start` says that the lines begin at the file's beginning, `whole` that they are all of it.
    """
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
