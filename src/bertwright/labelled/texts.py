"""Texts or pairs with a class, classes or a number, and sources with a target to be written: rows
of a table, or plain lines to predict. A source with several targets is several rows."""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, Groups, plain, split_label
from bertwright.labelled.examples import (
    GenerationExample,
    Label,
    TextExample,
    classes_of,
)
from bertwright.labelled.source import (
    BadRowLog,
    BadValue,
    Source,
    listed,
    shorten,
    without_surrogates,
)
from bertwright.labelled.table import Row, Table, read_text

SOURCES: Groups = (
    ("source",),
    (
        "mr",
        "meaning_representation",
        "document",
        "article",
        "dialogue",
        "input",
        "text",
    ),
)
TARGETS: Groups = (
    ("target",),
    (
        "ref",
        "human_reference",
        "summary",
        "highlights",
        "output",
        "headline",
        "question",
    ),
)
NO_GOLD_LABEL = "-"
"""MNLI and SNLI where the annotators did not agree."""
_TOUCHING = re.compile(r"""['"]\s+['"]""")
_MISSING = ("nan", "<na>", "#n/a")


@dataclass(frozen=True)
class LabelRules:
    """How a label is read."""

    kind: str
    known: Sequence[str] | None = None
    multi_label: bool = False

    def read(self, value: Any, where: str, log: BadRowLog) -> Label:
        """The label of one row.

        Raises:
            BadValue: it is missing or no number.
            DataError: it is not among the known ones; a 0 or 1 for each class in a list.
        """
        if self.kind == "regression":
            return _number(value)
        found = _several(value) if self.multi_label else [value]
        names = tuple(dict.fromkeys(without_surrogates(_class_name(each), log) for each in found))
        numbers = not all(isinstance(each, str) for each in found) or {*names} <= {
            "0",
            "1",
        }
        if len(names) < len(found) and numbers:
            raise DataError(
                f"{where}: the label {shorten(value)} has a number more than once, as a 0 or 1 "
                "for each class would; expected the classes that hold, as [1, 4]"
            )
        for name in names:
            if self.known is not None and name not in self.known:
                raise unknown_label(name, self.known, where)
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
                f"the label {shorten(value)} is no list; expected ['a', 'b'], or commas between",
            ) from error
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return value
    return [] if value is None or value != value else [value]


def _held(row: Row, classes: Sequence[str]) -> list[str]:
    """The classes of a row that has a column of 0 and 1 for each."""
    values = {name: _loosely(str(row[name]).strip()) for name in classes}
    for name, value in values.items():
        if value not in ("0.0", "1.0", "true", "false"):
            raise BadValue(
                "label is not 0 or 1",
                f"the column {shorten(name)} holds {shorten(row[name])}; expected 0 or 1",
            )
    return [name for name, value in values.items() if value in ("1.0", "true")]


def unknown_label(name: str, known: Sequence[str], where: str) -> DataError:
    """The error of a label that training did not have, with the nearest that it had."""
    near = [each for each in known if _loosely(each) == _loosely(name)]
    near = near or difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {shorten(near[0])}? " if near else ""
    return DataError(
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
            f"the label is {shorten(json.dumps(value))}; expected one class. Several at once: "
            "--multi-label",
        )
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise BadValue("no label", "the label is empty")
    return name


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadValue("no label", "the label is empty; expected a number")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadValue(
            "label is no number",
            f"the label {shorten(value)} is no number; expected one, as 1.5 (with a point)",
        )
    return number


def text_examples(
    table: Table, columns: Columns, rules: LabelRules, log: BadRowLog
) -> Iterator[TextExample]:
    """The examples of a table; a row that cannot be read goes to `log`.

    Raises:
        DataError: a bad row where `log` refuses them, an unknown label.
    """
    labels = [] if columns.label is None else split_label(columns.label, table.columns)
    if len(labels) > 1 and not rules.multi_label:
        raise DataError(
            f"{log.name}: the label is in {len(labels)} columns, {listed(labels)}; with "
            "a column for each class a text may have several: pass --multi-label"
        )
    gold = columns.label is not None and plain(columns.label) == "gold_label"
    unseen = {*labels} if len(labels) > 1 else set()
    if lacks := [name for name in rules.known or () if unseen and name not in unseen]:
        log.warn(f"no column is chosen for {listed(lacks)}, which training had; no text has them")

    def make(row: Row, id_: str, line: int) -> TextExample | None:
        text = read_text(row, columns.text, log)
        text2 = None if columns.text2 is None else read_text(row, columns.text2, log)
        if not labels:
            return TextExample(text, text2, None, id_, line)
        if gold and row[columns.label] == NO_GOLD_LABEL:
            log.leave_out(line, "the annotators did not agree (gold_label is '-')")
            return None
        value = row[columns.label] if len(labels) == 1 else _held(row, labels)
        label = rules.read(value, log.at(line), log)
        if unseen and isinstance(label, tuple):
            unseen.difference_update(label)
        return TextExample(text, text2, label, id_, line)

    yield from table.examples([*columns.texts(), *labels], make, log)
    if unseen and rules.known is None:
        log.warn(
            f"no text has {listed(sorted(unseen))}, as the columns hold 0 alone; such classes "
            "are not trained"
        )


def target_examples(table: Table, columns: Columns, log: BadRowLog) -> Iterator[GenerationExample]:
    """The examples of a table; a bad row goes to `log`."""

    def make(row: Row, id_: str, line: int) -> GenerationExample:
        source = read_text(row, columns.text, log)
        target = None if columns.label is None else read_text(row, columns.label, log)
        return GenerationExample(source, target, id_, line)

    return table.examples(columns.names(), make, log)


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
    parts = split_label(hint.label or "", columns)
    lacks = [part for part in parts if plain(part) not in map(plain, columns)]
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
    counts = Counter(name for each in examples for name in classes_of(each))
    total = len(examples)
    if counts and not known:
        if len(counts) == total >= 10 and max(counts.values()) == 1:
            raise DataError(
                f"{log.name}: each of the {total:,} examples has a label of its own, as "
                f"{shorten(next(iter(counts)))}; is --label the right column?"
            )
        if 2 * len(counts) > total > 2:
            log.warn(f"{len(counts):,} classes in {total:,} examples; is --label the right column?")
        if missing := [name for name in counts if name.casefold() in _MISSING]:
            log.warn(f"{shorten(missing[0])} is a class; where it means no label, take it out")
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
    if len(counts) == 1 and counts.total() == total > 1:
        name = shorten(next(iter(counts)))
        log.warn(f"all {total:,} examples have the label {name}; there is nothing to tell apart")
