"""Read texts for classification and regression, and sources with targets for generation.

The input is a table of labelled rows, or plain lines to predict. A source with several targets is
several rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import GenerationExample, Label, TextExample
from bertwright.labelled.file import File, LabelledTable, Reader, Row, Stream, other_kind, read_text
from bertwright.labelled.label_names import known_label
from bertwright.labelled.several_labels import (
    MARKS,
    LabelColumns,
    columns_of_zeros,
    find_label_columns,
    joined_by,
    list_of_text,
)
from bertwright.rows.bad_rows import BadValue
from bertwright.rows.columns import NAMES, plain

_NO_LABEL = (["-1"], ["-1.0"], ["-"])
"""Labels that `without_unlabelled` leaves out unless they are classes."""


def read_texts(file: File) -> Stream:
    """Read texts, or pairs of texts, with their labels or numbers."""
    table = file.table()
    label = _label_columns(table)
    columns = _columns(table, label)
    gold = plain(columns.label or "") == "gold_label"

    def make(row: Row, id_: str, line: int) -> TextExample | None:
        text = read_text(row, columns.text)
        text2 = None if columns.text2 is None else read_text(row, columns.text2)
        if label is None:
            return TextExample(text, text2, None, id_, line)
        if gold and row[columns.label] == "-":  # MNLI, SNLI
            table.log.skipped.add(line, "the annotators did not agree (gold_label is '-')")
            return None
        value = label.read(row, table.log, line)
        if value is None and label.classes is not None:
            return None
        return TextExample(text, text2, _label(value, table, line), id_, line)

    stream = table.stream(table.examples(columns.names(), make), columns)
    return replace(stream, classes=() if label is None else label.classes or ())


def _label_columns(table: LabelledTable) -> LabelColumns | None:
    """Return the columns of labels, or None if labels are not read."""
    if not table.options.require_labels:
        return None
    used, numbers = table.chosen.texts(), table.file.reader.numbers
    if table.options.multi_label:
        return find_label_columns(table, used)
    if not numbers and table.chosen.label is None and not table.known("labels", "--label", used):
        _refuse_columns_of_zeros(table, used)
    column = table.label("numbers" if numbers else "labels", used)
    if column is None:
        return None
    at = table.columns.index(column)
    cells = [row[at] for row in table.sample()]
    if numbers:
        names = [cell for cell in cells if isinstance(cell, str) and _is_name(cell)]
        if 1 < len(names) == len(cells):
            shown = listed(list(dict.fromkeys(names)), 4)
            raise other_kind(table.name, f"the labels {shown} (column {column})", "regression")
    else:
        if mark := joined_by(cells, table.options, MARKS + ","):
            shown = shorten(next(cell for cell in cells if isinstance(cell, str) and mark in cell))
            table.log.warn(
                f"labels as {shown} are one class each; if {mark!r} joins several: --multi-label"
            )
    return LabelColumns((column,))


def _refuse_columns_of_zeros(table: LabelledTable, used: Sequence[str]) -> None:
    """Raise DataError for a table with a column of 0 and 1 for each of several classes."""
    if zeros := columns_of_zeros(table, used):
        options = ("--multi-label", "--label", *zeros)
        raise DataError(
            f"{table.name} has no column of labels, but columns of 0 and 1, as for several classes "
            f"a text: {listed(zeros)}. To read them: {' '.join(options[:2])} COLUMN COLUMN ...",
            options,
        )


def _columns(table: LabelledTable, label: LabelColumns | None) -> Columns:
    """Return the columns of a classification or regression file.

    A single chosen text is not joined to a pair, even if its name is half of a known pair; the same
    holds if training used a single text.
    """
    chosen, hint = table.chosen, table.options.hint
    labels = () if label is None else label.columns
    text2 = None if chosen.text2 is None else table.named(chosen.text2, "--text2")
    alone = chosen.texts() or (hint.text is not None and hint.text2 is None)
    free = {} if alone else {plain(name): name for name in table.columns if name not in labels}
    pairs = [(free[a], free[b]) for a, b in NAMES["pairs"] if a in free and b in free]
    if len(pairs) > 1:
        several = "; ".join(map(listed, pairs))
        raise table.error(f"several pairs of texts ({several})", "--text COLUMN --text2")
    if pairs:
        text, text2 = pairs[0]
    else:
        text = table.find(chosen.text, "texts", "--text", [*labels, text2])
    if hint.text2 is not None and text2 is None:
        raise table.error("no column of second texts", "--text2")
    if len(labels) > 1:
        return Columns(text, text2, None, labels)
    return Columns(text, text2, labels[0] if labels else None)


def read_targets(file: File) -> Stream:
    """Read source texts with their target texts. The source of an instruction with an input, as in
    Alpaca's data, is both; an empty input is none.
    """
    table = file.table()
    target = table.label("targets", [table.chosen.text])
    source = table.find(table.chosen.text, "sources", "--text", [target])
    given = None
    if plain(source) == "instruction":
        given = table.known("inputs", "--text", [source, target])

    def make(row: Row, id_: str, line: int) -> GenerationExample:
        written = None if target is None else read_text(row, target)
        text = read_text(row, source)
        if given is not None and str(row[given] or "").strip():
            text += "\n" + read_text(row, given)
        return GenerationExample(text, written, id_, line)

    examples = table.examples([source, target, given], make)
    more = [] if given is None else [given]
    return table.stream(examples, Columns(source, None, target), *more)


def _label(value: Any, table: LabelledTable, line: int) -> Label:
    several, known = table.options.multi_label, table.options.labels
    if table.file.reader.numbers:
        return _number(value)
    values = _several(value) if several else [_single(value)]
    names = [_class_name(each) for each in values]
    names = [table.options.label_map.get(name, name) for name in names]
    if known is not None and names not in _NO_LABEL:
        names = [known_label(name, known, table.log, line) for name in names]
    if len({*names}) < len(names):
        raise BadValue("class more than once", shorten(value), "the classes that hold, as [1, 4]")
    return tuple(names) if several else names[0]


def _several(value: Any) -> Sequence[Any]:
    """Return the classes of one row: a list, also one written as text, or the parts between
    commas.
    """
    if isinstance(value, str) and value.strip()[:1] == "[" and value.strip()[-1:] == "]":
        names = list_of_text(value)
        if names is None:
            expected = "classes with commas between, or a list as ['art', 'war']"
            raise BadValue("list written as text", shorten(value), expected)
        return names
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return value
    return [] if value is None or value != value else [value]


def _is_name(cell: str) -> bool:
    """Return whether a label is a name: not empty and no number, not even one with a comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return bool(cell.strip())
    return False


def _single(value: Any) -> Any:
    """Return the value, or that of a list of one, which may be written as text."""
    values = list_of_text(value) if isinstance(value, str) else value
    if isinstance(values, list) and isinstance(value, str) and len(values) > 1:
        raise BadValue("several labels", shorten(value), "one class; for several: --multi-label")
    return values[0] if isinstance(values, list) and len(values) == 1 else value


def _class_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # tables turn integers into floats if some values are missing
    if isinstance(value, list | dict):
        came = shorten(json.dumps(value))
        raise BadValue("label of a wrong type", came, "one class; for several: --multi-label")
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise BadValue("no label", "", "a class")
    return name


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadValue("label is no number", shorten(value), "a number such as 1.5 (with a point)")
    return number


CLASSES = Reader(read_texts, classes=True)
NUMBERS = Reader(read_texts, numbers=True)
TARGETS = Reader(read_targets)
