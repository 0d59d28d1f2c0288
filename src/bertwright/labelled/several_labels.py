"""Read texts with several labels each.

| a row of the file | its classes |
|---|---|
| a list of names, also as text (`['art', 'war']`), or names separated by commas | those named |
| names joined by `;`, `|`, `#` or line ends in all rows (`art;war`) | those named |
| a list of 0 and 1 (`[0, 1, 1]`), of one length in all rows | by position; an option names them |
| a column of 0 and 1 for each class (Jigsaw's files) | the columns' names |

A list of 0 and 1 is recognized by the first rows. If it were read as names, every text of such a
file would have the same classes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.file import LabelledTable, ReadOptions, Row
from bertwright.rows.bad_rows import BadRowLog, BadValue
from bertwright.rows.columns import NAMES, is_known, plain

MARKS = ";|#\n"
"""What may join several classes in a cell, if it has no comma."""
_NO_COMMA = re.compile(r"""(['"])\s+(?=['"])""")  # between the strings of a NumPy array
_NUMBERS_AS_TEXT = re.compile(r"\[?\s*[01](\.0*)?([\s,]+[01](\.0*)?)+\s*,?\s*\]?")
_HOLDS = dict.fromkeys(("1", "1.0", "1.", "true"), True)
_HOLDS |= dict.fromkeys(("0", "0.0", "0.", "false"), False)
_NOT_LABELLED = ("-1", "-1.0")  # marks the rows of Jigsaw's test file that are not scored


@dataclass(frozen=True)
class LabelColumns:
    """The columns that hold the classes of a row."""

    columns: tuple[str, ...]
    """One column, or one for each class."""
    classes: tuple[str, ...] | None = None
    """The classes in their order if there is a 0 or 1 for each; None if the cells name the
    classes.
    """
    mark: str = ""
    """What joins the classes in a cell of text, if it is not a comma."""

    def read(self, row: Row, log: BadRowLog, line: int) -> Any:
        """Return the names of a row's classes, or its cell if cells name the classes.

        A row that is marked as not labelled is counted, and None is returned.
        """
        if self.classes is None:
            cell = row[self.columns[0]]
            is_joined = self.mark and isinstance(cell, str)
            return list(filter(str.strip, cell.split(self.mark))) if is_joined else cell
        cells = [row[column] for column in self.columns]
        if len(self.columns) == 1:
            cells = _positions(cells[0]) or []
            if len(cells) != len(self.classes):
                came = shorten(row[self.columns[0]])
                expected = f"a 0 or 1 for each of {len(self.classes)} classes, as in the first rows"
                raise BadValue("labels in another form than in the first rows", came, expected)
        if all(_spelled(cell) in _NOT_LABELLED for cell in cells):
            log.skipped.add(line, "the labels are -1: the row is not labelled")
            return None
        holds = [_HOLDS.get(_spelled(cell)) for cell in cells]
        if None in holds:
            number = holds.index(None)
            came = f"{shorten(cells[number])} of the class {shorten(self.classes[number])}"
            raise BadValue("label that is neither 0 nor 1", came, "0 or 1")
        return [name for name, held in zip(self.classes, holds, strict=True) if held]


def find_label_columns(table: LabelledTable, used: Sequence[str | None]) -> LabelColumns:
    """Return the columns that hold the classes.

    They are the columns that options name, else the columns named like the model's classes, else
    the column with a known name, else the columns of 0 and 1.
    """
    chosen, known = table.chosen, tuple(table.options.labels or ())
    names = chosen.labels
    if len(names) > 1:
        exists = [table.has(name) for name in names]
        if all(exists):
            columns = tuple(table.named(name, "--label") for name in names)
            return LabelColumns(columns, _renamed(columns, known))
        if any(exists[1:]):
            missing = [name for name, is_there in zip(names, exists, strict=True) if not is_there]
            raise table.error(f"no column {listed(missing)}", "--label")
        column = table.named(names[0], "--label") if exists[0] else None
        column = column or table.find(None, "labels", "--label", used)
        return _of_column(table, column, names[exists[0] :])
    if chosen.label is None and len(known) > 1 and all(map(table.has, known)):
        return LabelColumns(tuple(table.named(name, "--label") for name in known), known)
    column = None if chosen.label else table.known("labels", "--label", used)
    if column is None and chosen.label is None and (zeros := columns_of_zeros(table, used)):
        table.log.warn(
            f"no column has a known name of labels; {listed(zeros)} hold 0 and 1, and are read as "
            "one class each. To name others: --label COLUMN COLUMN ..."
        )
        return LabelColumns(tuple(zeros), _renamed(zeros, known))
    return _of_column(table, column or table.find(chosen.label, "labels", "--label", used))


def _of_column(table: LabelledTable, column: str, names: Sequence[str] = ()) -> LabelColumns:
    """Return one column; if its first rows are lists of 0 and 1, return their classes too."""
    at = table.columns.index(column)
    first = [row[at] for row in table.sample()]
    lists = [_positions(cell) for cell in first if cell is not None]
    widths = {0 if each is None else len(each) for each in lists}
    width = widths.pop() if len(widths) == 1 else 0
    if width < 2 or _are_own_names(lists, table.options.labels):
        if names:
            raise DataError(
                f"{table.name} has no column {listed(names)}, and they cannot name classes either, "
                f"because the column {shorten(column)} does not have a list of 0 and 1 in every "
                f"row; the file has the columns {listed(table.columns)}"
            )
        mark = joined_by(first, table.options)
        if mark:
            shown = shorten(next(cell for cell in first if isinstance(cell, str) and mark in cell))
            table.log.warn(f"labels as {shown} are split at {mark!r}: a class for each part")
        return LabelColumns((column,), mark=mark)
    known = tuple(table.options.labels or ())
    classes = tuple(names) or known or tuple(str(number) for number in range(1, width + 1))
    if len(classes) != width:
        whose = "--label names" if names else "the model has"
        raise DataError(
            f"{table.name}: the column {shorten(column)} has lists of {width} values, and {whose} "
            f"{len(classes)} classes: {listed(classes)}; expected a 0 or 1 for each"
        )
    if not names:
        called = f"are called {', '.join(classes)}; to name them: --label NAME NAME ..."
        order = f"are taken in the order of the model: {listed(classes)}"
        table.log.warn(
            f"labels are lists of 0 and 1 for {width} classes, which {order if known else called}"
        )
    return LabelColumns((column,), classes)


def joined_by(cells: Sequence[Any], options: ReadOptions, marks: str = MARKS) -> str:
    """Return the mark that joins several classes in cells of text, or "".

    Its parts must be the classes of the model or, if they are not known, no more than the different
    cells: of `art;war`, `art` and `war` they are two of three.
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    if len(texts) < len(cells) - cells.count(None) or any(text.startswith("[") for text in texts):
        return ""
    for mark in marks if "," in marks or not any("," in text for text in texts) else "":
        parts = [[*filter(None, map(str.strip, text.split(mark)))] for text in texts]
        names = {options.label_map.get(part, part) for each in parts for part in each}
        is_joined = max(map(len, parts), default=0) > 1
        known = options.labels
        fits = len(names) <= len({*texts}) if known is None else names <= {*known}
        if is_joined and fits and not {*texts} <= {*(known or ())}:
            return mark
    return ""


def list_of_text(text: str) -> list[Any] | None:
    """Return the list that a text is, as Python, JSON or NumPy write it; None for other texts."""
    text = text.strip()
    if text[:1] != "[" or text[-1:] != "]":
        return None
    text = _NO_COMMA.sub(r"\1, ", text)
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = parse(text)
            return value if isinstance(value, list) else None
    return None


def _are_own_names(lists: Sequence[Any], known: Sequence[str] | None) -> bool:
    """Return whether 0 and 1 are names of the model's classes, and the lists can be lists of
    names.
    """
    return (
        known is not None
        and {"0", "1"} <= {*known}
        and all(len({*each}) == len(each) for each in lists)
    )


def columns_of_zeros(table: LabelledTable, used: Sequence[str | None]) -> list[str]:
    """Return the columns that hold only 0 and 1 and have no other known purpose; [] if fewer than
    two.
    """
    rows = table.sample()
    ids = {*NAMES["ids"][0]}
    zeros = [
        column
        for at, column in enumerate(table.columns)
        if column not in used
        and plain(column) not in ids
        and not (is_known(column) and plain(column) in NAMES["texts"][0])
        and rows
        and all(_spelled(row[at]) in (*_HOLDS, *_NOT_LABELLED) for row in rows)
    ]
    return zeros if len(zeros) > 1 else []


def _renamed(columns: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return column names, spelled like the model's classes if only their capitalization
    differs.
    """
    spelling = {plain(name): name for name in known}
    return tuple(spelling.get(plain(column), column) for column in columns)


def _positions(value: Any) -> list[Any] | None:
    """Return the values of a list of 0 and 1, which may be written as text; None for anything
    else.
    """
    if isinstance(value, str) and _NUMBERS_AS_TEXT.fullmatch(value.strip()):
        return re.split(r"[\s,]+", value.strip().strip("[]").strip(" ,"))
    if not isinstance(value, list | tuple) or not value:
        return None
    return (
        list(value) if all(_spelled(each) in (*_HOLDS, *_NOT_LABELLED) for each in value) else None
    )


def _spelled(value: Any) -> str:
    return str(value).strip().lower()
