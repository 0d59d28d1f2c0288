"""Guess from the values which columns hold texts and labels, if no column has a known name.

A file of two columns, one of which has few short values, is read by the guess, with a warning. For
other files the guess becomes part of the error message, as options to try.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from bertwright.labelled.tables.columns import NAMES, plain

LABEL_CHARACTERS, LABEL_WORDS = 40, 4
"""The longest value that can be a label."""


class Guess(NamedTuple):
    """The columns that probably hold texts and labels; None if it is not clear."""

    text: str | None
    label: str | None

    def options(self) -> tuple[str, ...]:
        """Return the guess as options of the command line."""
        pairs = (("--text", self.text), ("--label", self.label))
        return tuple(word for option, name in pairs if name is not None for word in (option, name))


def guess_columns(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers: bool = False
) -> Guess:
    """Return the column with the longest texts and the column with few short values (or
    `numbers`).
    """
    ids = {*NAMES["ids"][0]}
    columns = {
        name: [_text(row[at]) for row in rows]
        for at, name in enumerate(names)
        if plain(name) not in ids
    }
    if not rows or not columns:
        return Guess(None, None)
    text = max(columns, key=lambda name: _length(columns[name]))
    if _length(columns[text]) < 2:
        return Guess(None, None)
    is_label = _are_numbers if numbers else _are_labels
    labels = [name for name in columns if name != text and is_label(columns[name], columns[text])]
    labels.sort(key=lambda name: len({*columns[name]}))
    several = len(labels) > 1 and len({*columns[labels[0]]}) == len({*columns[labels[1]]})
    return Guess(text, None if several or not labels else labels[0])


def is_unknown_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a header although none of its names is known.

    It is one if all its cells are short words, and one of them stands above a column of numbers, or
    above a column of few repeated values that never contains it.
    """
    names = [cell.strip() for cell in first]
    rows = [row for row in rest if len(row) == len(first)]
    if len(rows) < 2 or len({*names}) < len(names):
        return False
    if not all(
        re.fullmatch(r"[^\W\d][\w .#-]{0,29}", name) and len(name.split()) < 3 for name in names
    ):
        return False
    for name, *values in zip(names, *([cell.strip() for cell in row] for row in rows), strict=True):
        counts = Counter(values)
        if all(_is_number(value) for value in values):
            return True
        repeated = len(rows) >= 4 and min(counts.values()) > 1 and 2 * len(counts) <= len(rows)
        if repeated and name not in counts and len(counts) > 1:
            return True
    return False


def _are_labels(values: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether the values are short and few, and shorter and fewer than the texts."""
    if not all(
        value and len(value) <= LABEL_CHARACTERS and len(value.split()) <= LABEL_WORDS
        for value in values
    ):
        return False
    distinct = len({*values})
    one_word = all(len(value.split()) == 1 for value in values)
    few = 2 * distinct <= len(values) or (distinct < len(values) < 8 and one_word)
    return few and 1 < distinct <= len({*texts}) and 1.5 * _length(values) <= _length(texts)


def _are_numbers(values: Sequence[str], texts: Sequence[str]) -> bool:
    return all(map(_is_number, values)) and not all(map(_is_number, texts))


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _length(values: Sequence[str]) -> float:
    return sum(map(len, values)) / max(1, len(values))
