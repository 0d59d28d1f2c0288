"""Texts or pairs with a class, classes or a number, and sources with a target to be written: rows
of a table, or plain lines to predict. A source with several targets is several rows."""

from __future__ import annotations

import difflib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.columns import (
    CLASSES,
    NUMBERS,
    PAIRS,
    TEXTS,
    Columns,
    Groups,
    plain,
    split_label,
)
from bertwright.labelled.examples import GenerationExample, Label, TextExample, classes_of
from bertwright.labelled.file import File, Stream
from bertwright.labelled.source import BadRowLog, BadValue, listed, shorten
from bertwright.labelled.table import Row, Table, read_text

SOURCES: Groups = (
    ("source",),
    ("mr", "meaning_representation", "document", "article", "dialogue", "input", "text"),
)
TARGETS: Groups = (
    ("target",),
    ("ref", "human_reference", "summary", "highlights", "output", "headline", "question"),
)
UNSEEN = "label unseen in training"
NO_GOLD_LABEL = "-"
"""MNLI and SNLI where the annotators did not agree."""
_MISSING = ("nan", "<na>", "#n/a")


def read_texts(file: File) -> Stream:
    """Classification and regression."""
    options, label = file.options, file.options.require_labels
    pair = options.pair if options.pair is not None else options.hint.text2 is not None
    if lines := file.lines(pair):
        plain_texts = (TextExample(a, b, line=number) for number, a, b in lines)
        each = "a pair a line" if pair else "a line each"
        return file.found(plain_texts, Columns(), f"plain text, {each}")
    table, chosen = file.table()
    if label and chosen.label is None:
        _check_classes(table, options.hint)
    columns = _columns(table, chosen, file)
    examples: Iterable[TextExample] = _examples(file, table, columns)
    if label:
        examples = list(examples)
        _check_labels(examples, file)
    return file.found(examples, columns, table)


def _columns(table: Table, chosen: Columns, file: File) -> Columns:
    """The columns of a classification or regression file. A text that is chosen alone stands alone,
    also where its name is half of a pair."""
    pair, label = file.options.pair, file.options.require_labels
    labels: list[str] = []
    if label and chosen.label is not None:
        parts = split_label(chosen.label, table.columns)
        labels = [table.named(part, "--label") for part in parts]
    elif label:
        groups = NUMBERS if file.kind == "regression" else CLASSES
        what = "labels (of one with 0 and 1 for each class: --multi-label --label A,B,C)"
        labels = [table.find(None, groups, what, "--label", chosen.texts())]
    text2 = None if chosen.text2 is None else table.named(chosen.text2, "--text2")
    free = [name for name in table.columns if name not in (*labels, text2)]
    pairs = [] if pair is False or chosen.text is not None else _pairs(free, text2)
    if len(pairs) > 1:
        raise DataError(
            f"{table.name} has several pairs of texts ({'; '.join(map(listed, pairs))}); choose "
            "with --text COLUMN --text2 COLUMN"
        )
    if pairs:
        text, text2 = pairs[0]
    else:
        text = table.find(chosen.text, TEXTS, "texts", "--text", [*labels, text2])
    if pair and text2 is None:
        table.find(None, (), "second texts", "--text2")
    return Columns(text, text2, ",".join(labels) or None)


def _pairs(columns: Sequence[str], text2: str | None) -> list[tuple[str, str]]:
    """Columns that are a known pair; with a second text given, those it may stand beside."""
    there = {plain(column): column for column in columns}
    seconds = there if text2 is None else {plain(text2): text2}
    return [(there[a], seconds[b]) for a, b in PAIRS if a in there and b in seconds]


def _examples(file: File, table: Table, columns: Columns) -> Iterator[TextExample]:
    log, known = file.log, file.options.labels
    labels = [] if columns.label is None else split_label(columns.label, table.columns)
    if len(labels) > 1 and not file.options.multi_label:
        raise DataError(
            f"{log.name}: the label is in {len(labels)} columns, {listed(labels)}; with "
            "a column for each class a text may have several: pass --multi-label"
        )
    gold = columns.label is not None and plain(columns.label) == "gold_label"
    unseen = {*labels} if len(labels) > 1 else set()
    if lacks := [name for name in known or () if unseen and name not in unseen]:
        log.warn(f"no column is chosen for {listed(lacks)}, which training had; no text has them")

    def make(row: Row, id_: str, line: int) -> TextExample | None:
        text = read_text(row, columns.text)
        text2 = None if columns.text2 is None else read_text(row, columns.text2)
        if not labels:
            return TextExample(text, text2, None, id_, line)
        if gold and row[columns.label] == NO_GOLD_LABEL:
            log.leave_out(line, "the annotators did not agree (gold_label is '-')")
            return None
        value = row[columns.label] if len(labels) == 1 else _held(row, labels)
        label = _label(value, file, log.at(line))
        if unseen and isinstance(label, tuple):
            unseen.difference_update(label)
        return TextExample(text, text2, label, id_, line)

    yield from table.examples([*columns.texts(), *labels], make)
    if unseen and known is None:
        log.warn(
            f"no text has {listed(sorted(unseen))}, as the columns hold 0 alone; such classes "
            "are not trained"
        )


def read_targets(file: File) -> Stream:
    """Generation."""
    if lines := file.lines():
        sources = (GenerationExample(text, line=number) for number, text, _ in lines)
        return file.found(sources, Columns(), "plain text, a source each line")
    table, chosen = file.table()
    target = None
    if file.options.require_labels:
        target = table.find(chosen.label, TARGETS, "targets", "--label", [chosen.text])
    source = table.find(chosen.text, SOURCES, "sources", "--text", [target])

    def make(row: Row, id_: str, line: int) -> GenerationExample:
        written = None if target is None else read_text(row, target)
        return GenerationExample(read_text(row, source), written, id_, line)

    columns = Columns(source, None, target)
    return file.found(table.examples(columns.names(), make), columns, table)


def _label(value: Any, file: File, where: str) -> Label:
    """The label of one row."""
    several, known = file.options.multi_label, file.options.labels
    if file.kind == "regression":
        return _number(value)
    found = _several(value) if several else [value]
    names = tuple(dict.fromkeys(_class_name(each) for each in found))
    numbers = not all(isinstance(each, str) for each in found) or {*names} <= {"0", "1"}
    if len(names) < len(found) and numbers:
        raise DataError(
            f"{where}: the label {shorten(value)} has a number more than once, as a 0 or 1 "
            "for each class would; expected the classes that hold, as [1, 4]"
        )
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


def _held(row: Row, classes: Sequence[str]) -> list[str]:
    """The classes of a row that has a column of 0 and 1 for each."""
    values = {name: _loosely(str(row[name]).strip()) for name in classes}
    for name, value in values.items():
        if value not in ("0.0", "1.0", "true", "false"):
            came = f"{shorten(row[name])} in the column {shorten(name)}"
            raise BadValue("label is not 0 or 1", came, "0 or 1 in the column of a class")
    return [name for name, value in values.items() if value in ("1.0", "true")]


def unknown_label(name: str, known: Sequence[str], where: str) -> DataError:
    """The error of a label that training did not have, with the nearest that it had."""
    return DataError(f"{where}: {UNSEEN}: {shorten(name)}; expected {expected_label(name, known)}")


def expected_label(name: str, known: Sequence[str]) -> str:
    """The known labels, for a message, and which of them is nearest."""
    near = [each for each in known if _loosely(each) == _loosely(name)]
    near = near or difflib.get_close_matches(name, known, n=1)
    return f"one of {listed(known)}" + (f" (did you mean {shorten(near[0])}?)" if near else "")


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
        came = shorten(json.dumps(value))
        raise BadValue("label of a wrong type", came, "one class; for several: --multi-label")
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise BadValue("no label", "", "a class")
    return name


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadValue("no label", "", "a number")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadValue("label is no number", shorten(value), "one as 1.5 (with a point)")
    return number


def _check_classes(table: Table, hint: Columns) -> None:
    """Raise DataError for a file that has some, not all, of training's columns of 0 and 1."""
    parts = split_label(hint.label or "", table.columns)
    lacks = [part for part in parts if plain(part) not in map(plain, table.columns)]
    if 0 < len(lacks) < len(parts):
        raise DataError(
            f"{table.name} lacks {listed(lacks)} of training's columns {listed(parts)}; add them, "
            "or choose with --label"
        )


def _check_labels(examples: Sequence[TextExample], file: File) -> None:
    """Warn of labels that nothing can be learned from: one class only, nearly one an example,
    spellings of one class that differ in case or notation. Ten or more, each with a label of its
    own, are an error where none is known.
    """
    log, known = file.log, file.options.labels is not None
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
