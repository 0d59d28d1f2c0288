"""Texts or pairs with a class, classes or a number, and sources with a target to be written: rows
of a table, or plain lines to predict. A source with several targets is several rows."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Sequence
from typing import Any

from bertwright.labelled.columns import NAMES, Columns, plain
from bertwright.labelled.examples import GenerationExample, Label, TextExample
from bertwright.labelled.file import File, Stream
from bertwright.labelled.source import BadValue, listed, shorten
from bertwright.labelled.table import Row, Table, read_text

UNSEEN = "label unseen in training"


def read_texts(file: File) -> Stream:
    """Classification and regression."""
    table = file.table()
    columns = _columns(table, file)
    gold = plain(columns.label or "") == "gold_label"

    def make(row: Row, id_: str, line: int) -> TextExample | None:
        text = read_text(row, columns.text)
        text2 = None if columns.text2 is None else read_text(row, columns.text2)
        if columns.label is None:
            return TextExample(text, text2, None, id_, line)
        if gold and row[columns.label] == "-":  # MNLI, SNLI
            file.log.skipped.add(line, "the annotators did not agree (gold_label is '-')")
            return None
        return TextExample(text, text2, _label(row[columns.label], file), id_, line)

    return file.found(table.examples(columns.names(), make), columns, table)


def _columns(table: Table, file: File) -> Columns:
    """The columns of a classification or regression file. A text that is chosen alone stands alone,
    also where its name is half of a pair; where training's text did, it does."""
    chosen, hint = file.chosen, file.options.hint
    what = "numbers" if file.kind == "regression" else "labels"
    label = file.label(table, what, chosen.texts())
    text2 = None if chosen.text2 is None else table.named(chosen.text2, "--text2")
    alone = chosen.texts() or (hint.text is not None and hint.text2 is None)
    free = {} if alone else {plain(name): name for name in table.columns if name != label}
    pairs = [(free[a], free[b]) for a, b in NAMES["pairs"] if a in free and b in free]
    if len(pairs) > 1:
        several = "; ".join(map(listed, pairs))
        raise table.error(f"several pairs of texts ({several})", "--text COLUMN --text2")
    if pairs:
        text, text2 = pairs[0]
    else:
        text = table.find(chosen.text, "texts", "--text", [label, text2])
    if hint.text2 is not None and text2 is None:
        raise table.error("no column of second texts", "--text2")
    return Columns(text, text2, label)


def read_targets(file: File) -> Stream:
    """Generation."""
    table = file.table()
    target = file.label(table, "targets", [file.chosen.text])
    source = table.find(file.chosen.text, "sources", "--text", [target])

    def make(row: Row, id_: str, line: int) -> GenerationExample:
        written = None if target is None else read_text(row, target)
        return GenerationExample(read_text(row, source), written, id_, line)

    examples = table.examples([source, target], make)
    return file.found(examples, Columns(source, None, target), table)


def _label(value: Any, file: File) -> Label:
    several, known = file.options.multi_label, file.options.labels
    if file.kind == "regression":
        return _number(value)
    found = _several(value) if several else [value]
    names = tuple(_class_name(each) for each in found)
    if len({*names}) < len(names):
        raise BadValue("class more than once", shorten(value), "the classes that hold, as [1, 4]")
    for name in names:
        if known is not None and name not in known:
            raise BadValue(UNSEEN, shorten(name), expected_label(name, known))
    return names if several else names[0]


def _several(value: Any) -> Sequence[Any]:
    """The classes of one row: a list, or what stands between commas."""
    if isinstance(value, str) and value.strip()[:1] == "[" and value.strip()[-1:] == "]":
        expected = "classes with commas between, or a list in JSON lines"
        raise BadValue("list written as text", shorten(value), expected)
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return value
    return [] if value is None or value != value else [value]


def expected_label(name: str, known: Sequence[str]) -> str:
    """The known labels, for a message, and which of them is nearest."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"one of {listed(known)}" + (f" (did you mean {shorten(near[0])}?)" if near else "")


def _class_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # what tables make of whole numbers where some are missing
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
        raise BadValue("label is no number", shorten(value), "one as 1.5 (with a point)")
    return number
