"""Texts or pairs with a class, classes or a number: rows of a table, or plain lines to predict."""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, find_id, plain, split_label
from bertwright.labelled.examples import Label, TextExample
from bertwright.labelled.source import (
    BadRowLog,
    BadValue,
    Source,
    listed,
    shorten,
    without_surrogates,
)
from bertwright.labelled.table import Table

_TOUCHING = re.compile(r"""['"]\s+['"]""")
NO_GOLD_LABEL = "-"
"""MNLI and SNLI where the annotators did not agree."""
_MISSING = ("nan", "<na>", "#n/a")


@dataclass(frozen=True)
class LabelRules:
    """How a label is read."""

    kind: str
    known: Sequence[str] | None = None
    multi_label: bool = False

    def read(self, value: Any, where: str) -> Label:
        """The label of one row.

        Raises:
            BadValue: it is missing or no number.
            DataError: it is not among the known ones; a 0 or 1 for each class in a list.
        """
        if self.kind == "regression":
            return _number(value)
        found = _several(value) if self.multi_label else [value]
        names = tuple(dict.fromkeys(map(_class_name, found)))
        numbers = not all(isinstance(each, str) for each in found) or {*names} <= {"0", "1"}
        if len(names) < len(found) and numbers:
            raise DataError(
                f"{where}: the label {shorten(value)} has a number more than once, as a 0 or 1 "
                "for each class would; expected the classes that hold, as [1, 4]"
            )
        for name in names:
            check_known(name, self.known, where)
        return names if self.multi_label else names[0]


def _several(value: Any) -> Sequence[Any]:
    """The classes of one row: a list, also one written as text, or what stands between commas."""
    if isinstance(value, str) and value.strip()[:1] == "[" and value.strip()[-1:] == "]":
        try:
            if _TOUCHING.search(value):  # numpy's: Python would join the two
                raise ValueError("no comma between two texts")
            return list(ast.literal_eval(value.strip()))
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise BadValue(
                "label of a wrong form",
                f"the label {shorten(value)} begins as a list but is none; expected one as "
                "['a', 'b'], or classes with commas between",
            ) from error
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return value
    return [] if value is None or value != value else [value]


def _held(row: dict[str, Any], classes: Sequence[str]) -> list[str]:
    """The classes of a row that has a column of 0 and 1 for each."""
    held = []
    for name in classes:
        value = _loosely(str(row[name]).strip())
        if value not in ("0.0", "1.0", "true", "false"):
            raise BadValue(
                "label is not 0 or 1",
                f"the column {shorten(name)} holds {shorten(row[name])}; expected 0 or 1 in the "
                "column of a class",
            )
        if value in ("1.0", "true"):
            held.append(name)
    return held


def check_known(name: str, known: Sequence[str] | None, where: str) -> None:
    """Raise DataError for a label that training did not have, with the nearest that it had."""
    if known is None or name in known:
        return
    near = [each for each in known if _loosely(each) == _loosely(name)]
    near = near or difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {shorten(near[0])}? " if near else ""
    raise DataError(
        f"{where}: the label {shorten(name)} is unseen in training; {meant}known are "
        f"{listed(known)}. Mend the label, or train with examples of it"
    )


def _loosely(name: str) -> str:
    """A label without regard to case, a number by its value: `TRUE` and `true`, `1.0` and `1`."""
    try:
        return str(float(name))
    except ValueError:
        return name.casefold()


def _class_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # what tables make of whole numbers where some are missing
    if isinstance(value, list | dict):
        raise BadValue(
            "label of a wrong type",
            f"the label is a list or an object: {shorten(json.dumps(value))}; expected one class. "
            "Several at once: --multi-label",
        )
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise BadValue("no label", "the label is empty")
    return name


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadValue("no label", "the label is empty; expected a number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise BadValue(
            "label is no number",
            f"the label {shorten(value)} is no number; expected one, as 1.5 (with a point)",
        )
    return number


def read_text(value: Any, column: str, log: BadRowLog) -> str:
    """A text of a row.

    Raises:
        BadValue: it is empty, missing or no text.
    """
    if value is None or value != value:  # NaN: what tables make of nothing
        raise BadValue("empty text", f"there is nothing in the column {shorten(column)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        what = f"the column {shorten(column)} holds a {type(value).__name__}; expected a text"
        raise BadValue("text of a wrong type", what)
    if not value.strip():
        raise BadValue("empty text", f"the text in the column {shorten(column)} is empty")
    return value if value.isascii() else without_surrogates(value, log)


def read_name(value: Any) -> str:
    """The id of a row; empty where it has none."""
    return "" if value is None else str(value)


def text_examples(
    table: Table, columns: Columns, rules: LabelRules, log: BadRowLog
) -> Iterator[TextExample]:
    """The examples of a table; a row that cannot be read goes to `log`.

    Raises:
        DataError: a bad row where `log` refuses them, an unknown label.
    """
    labels = [] if columns.label is None else split_label(columns.label, table.columns)
    used = [*replace(columns, label=None).names(), *labels]
    id_column = find_id(table.columns, used)
    names = [*used, *([id_column] if id_column else [])]
    if len(labels) > 1 and not rules.multi_label:
        raise DataError(
            f"{log.name}: the label is in {len(labels)} columns, {listed(labels)}; with "
            "a column for each class a text may have several: pass --multi-label"
        )
    gold = columns.label is not None and plain(columns.label) == "gold_label"
    unseen = {*labels} if len(labels) > 1 else set()
    if lacks := [name for name in rules.known or () if unseen and name not in unseen]:
        log.warn(
            f"no column is chosen for {listed(lacks)}, which training had; no text is "
            "taken to have them"
        )
    for line, values in table.rows(names):
        row = dict(zip(names, values, strict=True))
        try:
            text = read_text(row[columns.text or ""], columns.text or "", log)
            text2 = read_text(row[columns.text2], columns.text2, log) if columns.text2 else None
            label: Label | None = None
            if columns.label is not None:
                if gold and row[columns.label] == NO_GOLD_LABEL:
                    log.leave_out(line, "the annotators did not agree (gold_label is '-')")
                    continue
                value: Any = row[columns.label] if len(labels) == 1 else _held(row, labels)
                label = rules.read(_whole(value, log), log.at(line))
                unseen.difference_update(label if isinstance(label, tuple) else ())
        except BadValue as error:
            log.bad(line, error.reason, str(error))
            continue
        name = read_name(row[id_column] if id_column else None)
        yield TextExample(text, text2, label, name, line)
    if unseen and rules.known is None:
        log.warn(
            f"no text has {listed(sorted(unseen))}, as the columns hold 0 alone; such classes "
            "are not trained"
        )


def _whole(value: Any, log: BadRowLog) -> Any:
    """A label, or a list of them, without lone surrogates."""
    if isinstance(value, list | tuple):
        return [_whole(each, log) for each in value]
    return without_surrogates(value, log) if isinstance(value, str) else value


def text_lines(source: Source, pair: bool, log: BadRowLog) -> Iterator[TextExample]:
    """Plain text: one text a line, or a pair with a tab between."""
    for number, line in source.lines():
        text, *others = line.split("\t") if pair else [line]
        if not line.strip():
            log.leave_out(number, "empty line")
        elif pair and (len(others) != 1 or not text.strip() or not others[0].strip()):
            what = "expected two texts with one tab between them, as the model was trained on pairs"
            log.bad(number, "no pair of texts", what)
        else:
            yield TextExample(text, others[0] if others else None, line=number)


def check_classes(columns: Sequence[str], hint: Columns, file: str) -> None:
    """Raise DataError for a file that has some, not all, of training's columns of 0 and 1."""
    there = {*map(plain, columns)}
    parts = split_label(hint.label or "", columns)
    lacks = [part for part in parts if plain(part) not in there]
    if 0 < len(lacks) < len(parts):
        raise DataError(
            f"{file} lacks {listed(lacks)} of training's columns {listed(parts)}; add what is "
            "missing, or choose with --label"
        )


def check_labels(examples: Sequence[TextExample], log: BadRowLog, *, known: bool) -> None:
    """Warn of labels that nothing can be learned from: one class only, nearly one an example,
    spellings of one class that differ in case or notation.

    Raises:
        DataError: ten examples or more, each with a label of its own, and no labels `known`.
    """
    counts = Counter(name for each in examples for name in _names(each.label))
    total = len(examples)
    if counts and not known:
        if len(counts) == total >= 10 and max(counts.values()) == 1:
            raise DataError(
                f"{log.name}: each of the {total:,} examples has a label of its own, as "
                f"{shorten(next(iter(counts)))}; is --label the right column?"
            )
        if 2 * len(counts) > total and total > 2:
            log.warn(f"{len(counts):,} classes in {total:,} examples; is --label the right column?")
        joined = [
            each for each in counts if counts.keys() & {*each.replace("|", ";").split(";")} - {each}
        ]
        if joined and any(isinstance(each.label, tuple) for each in examples):
            log.warn(f"{shorten(joined[0])} is one class; what separates several is a comma")
        if missing := [name for name in counts if name.casefold() in _MISSING]:
            log.warn(
                f"{shorten(missing[0])} is a class of its own; where it means that there is no "
                "label, take it out"
            )
        spellings: dict[str, list[str]] = {}
        for label in counts:
            spellings.setdefault(_loosely(label), []).append(label)
        for alike in spellings.values():
            if len(alike) > 1:
                log.warn(
                    f"the labels {listed(alike)} are {len(alike)} classes; if they mean the same, "
                    "spell them alike"
                )
    warn_of_one_class(counts, total, log)


def warn_of_one_class(counts: Counter[str], total: int, log: BadRowLog) -> None:
    """Warn where all labels are the same."""
    if len(counts) == 1 and total > 1 and total in counts.values():
        (name,) = counts
        log.warn(
            f"all {total:,} examples have the label {shorten(name)}; there is nothing to tell apart"
        )


def _names(label: Label | None) -> Iterable[str]:
    if isinstance(label, str):
        return (label,)
    return label if isinstance(label, tuple) else ()
