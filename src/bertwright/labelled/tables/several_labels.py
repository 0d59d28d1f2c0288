"""Texts with several labels: how a file says which classes hold.

| a row of the file | classes |
|---|---|
| a list of names, or names with commas between | those named |
| a list of 0 and 1 (`[0, 1, 1]`), of one length in all rows | by position; an option names them |
| a column of 0 and 1 for each class (Jigsaw's files) | the columns' names |

Lists of 0 and 1 are known by their first rows: read as names, the same classes would hold for every
text of such a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.file import File
from bertwright.labelled.source import BadValue, listed, shorten
from bertwright.labelled.tables.columns import NAMES, is_known, plain
from bertwright.labelled.tables.table import Row, Table

_NUMBERS_AS_TEXT = re.compile(r"\[?\s*[01](\.0*)?([\s,]+[01](\.0*)?)+\s*,?\s*\]?")
_HOLDS = dict.fromkeys(("1", "1.0", "1.", "true"), True)
_HOLDS |= dict.fromkeys(("0", "0.0", "0.", "false"), False)
_NOT_LABELLED = ("-1", "-1.0")  # of rows that Jigsaw's test file does not score


@dataclass(frozen=True)
class LabelColumns:
    """Where the classes of a row stand."""

    columns: tuple[str, ...]
    """One, or one for each class."""
    classes: tuple[str, ...] | None = None
    """The classes in their order where there is a 0 or 1 for each; None: the cells name them."""

    def read(self, row: Row, file: File, line: int) -> Any:
        """Return the names of the classes of a row, or its cell where cells name them; None where
        the row is not labelled, which is counted."""
        if self.classes is None:
            return row[self.columns[0]]
        cells = [row[column] for column in self.columns]
        if len(self.columns) == 1:
            cells = _positions(cells[0]) or []
            if len(cells) != len(self.classes):
                came = shorten(row[self.columns[0]])
                expected = f"a 0 or 1 for each of {len(self.classes)} classes, as in the first rows"
                raise BadValue("labels of another form than in the first rows", came, expected)
        if all(_spelled(cell) in _NOT_LABELLED for cell in cells):
            file.log.skipped.add(line, "the labels are -1: the row is not labelled")
            return None
        holds = [_HOLDS.get(_spelled(cell)) for cell in cells]
        if None in holds:
            number = holds.index(None)
            came = f"{shorten(cells[number])} of the class {shorten(self.classes[number])}"
            raise BadValue("label that is neither 0 nor 1", came, "0 or 1")
        return [name for name, held in zip(self.classes, holds, strict=True) if held]


def find_label_columns(table: Table, file: File, used: Sequence[str | None]) -> LabelColumns:
    """Return where the classes stand: in the columns that options name, in those of the classes of
    the model, in the column with a known name, or in columns of 0 and 1.

    Raises:
        DataError: no such columns, or names for another number of classes.
    """
    chosen, known = file.chosen, tuple(file.options.labels or ())
    names = chosen.labels
    if len(names) > 1:
        there = [table.has(name) for name in names]
        if all(there):
            columns = tuple(table.named(name, "--label") for name in names)
            return LabelColumns(columns, _renamed(columns, known))
        if any(there[1:]):
            missing = [name for name, is_there in zip(names, there, strict=True) if not is_there]
            raise table.error(f"no column {listed(missing)}", "--label")
        column = table.named(names[0], "--label") if there[0] else None
        column = column or table.find(None, "labels", "--label", used)
        return _of_column(table, file, column, names[there[0] :])
    if chosen.label is None and len(known) > 1 and all(map(table.has, known)):
        return LabelColumns(tuple(table.named(name, "--label") for name in known), known)
    column = None if chosen.label else table.known("labels", "--label", used)
    if column is None and chosen.label is None and (found := columns_of_zeros(table, used)):
        file.log.warn(
            f"no column has labels by its name; taken is a class a column, of {listed(found)}, as "
            "they hold 0 and 1. To name others: --label COLUMN COLUMN ..."
        )
        return LabelColumns(tuple(found), _renamed(found, known))
    return _of_column(table, file, column or table.find(chosen.label, "labels", "--label", used))


def _of_column(table: Table, file: File, column: str, names: Sequence[str] = ()) -> LabelColumns:
    """One column: of lists of 0 and 1 if its first rows say so."""
    at = table.columns.index(column)
    first = [row[at] for row in table.sample()]
    lists = [_positions(cell) for cell in first if cell is not None]
    widths = {0 if each is None else len(each) for each in lists}
    width = widths.pop() if len(widths) == 1 else 0
    if width < 2 or _are_own_names(lists, file.options.labels):
        if names:
            raise DataError(
                f"{table.name} has no column {listed(names)}, and the column {shorten(column)} has "
                "no list of 0 and 1 in every row, whose classes they could name; it has the "
                f"columns {listed(table.columns)}"
            )
        return LabelColumns((column,))
    known = tuple(file.options.labels or ())
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
        file.log.warn(
            f"a label has a 0 or 1 for each of {width} classes, which {order if known else called}"
        )
    return LabelColumns((column,), classes)


def _are_own_names(lists: Sequence[Any], known: Sequence[str] | None) -> bool:
    """Whether 0 and 1 are two of the model's classes, and the lists could be of their names."""
    return (
        known is not None
        and {"0", "1"} <= {*known}
        and all(len({*each}) == len(each) for each in lists)
    )


def columns_of_zeros(table: Table, used: Sequence[str | None]) -> list[str]:
    """The columns that hold 0 and 1 alone and are not known for anything else; [] if fewer than
    two."""
    rows = table.sample()
    ids = {*NAMES["ids"][0]}
    found = [
        column
        for at, column in enumerate(table.columns)
        if column not in used
        and plain(column) not in ids
        and not (is_known(column) and plain(column) in NAMES["texts"][0])
        and rows
        and all(_spelled(row[at]) in (*_HOLDS, *_NOT_LABELLED) for row in rows)
    ]
    return found if len(found) > 1 else []


def _renamed(columns: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, spelled as the model's classes where letters alone differ."""
    own = {plain(name): name for name in known}
    return tuple(own.get(plain(column), column) for column in columns)


def _positions(value: Any) -> list[Any] | None:
    """The values of a list of 0 and 1, also of one that is written as text; None of anything
    else."""
    if isinstance(value, str) and _NUMBERS_AS_TEXT.fullmatch(value.strip()):
        return re.split(r"[\s,]+", value.strip().strip("[]").strip(" ,"))
    if not isinstance(value, list | tuple) or not value:
        return None
    return (
        list(value) if all(_spelled(each) in (*_HOLDS, *_NOT_LABELLED) for each in value) else None
    )


def _spelled(value: Any) -> str:
    return str(value).strip().lower()
