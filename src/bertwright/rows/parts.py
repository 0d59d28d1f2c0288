"""Find the column that says which rows of a table are for training, and which for evaluation.

STS-B in one file has `split`, SICK `SemEval_set`; other data sets call it `set` or `subset`.
Numbers of folds say nothing of this kind: the rows of all folds are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertwright.rows.columns import plain

_COLUMNS = ("split", "semeval_set", "set", "fold", "subset", "partition", "data_split")
PARTS = {
    "train": "train training",
    "dev": "dev devel development val valid validation trial",  # trial: SICK
    "test": "test testing",
}
"""A part of a data set -> the values that mean it, in lower case."""
_PART_OF = {name: part for part, names in PARTS.items() for name in names.split()}


def part_of(value: Any) -> str | None:
    """Return the part of the data set that a value means, or None."""
    return _PART_OF.get(str(value).strip().lower())


def find_parts(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str | None:
    """Return the column of parts: one with a known name and only known values, or None."""
    for at, name in enumerate(columns):
        if plain(name) in _COLUMNS and rows and all(part_of(row[at]) for row in rows):
            return name
    return None


def find_folds(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str | None:
    """Return the column of numbers of folds, or None."""
    for at, name in enumerate(columns):
        values = {str(row[at]).strip() for row in rows}
        is_known = plain(name) in (*_COLUMNS, "kfold", "k_fold")
        if is_known and len(values) > 1 and all(map(str.isdecimal, values)):
            return name
    return None
