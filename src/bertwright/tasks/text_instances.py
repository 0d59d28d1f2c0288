"""Texts and pairs as ids, for classification and regression.

Devlin et al. 2019, section 4 and figure 4: a text is [CLS] A [SEP], a pair [CLS] A [SEP] B [SEP]
with segments 0 and 1. A longer one is read in windows (`windows`), so no token goes unread. A text
of which the tokenizer keeps nothing, as a zero-width space, is [CLS] [SEP]; one that is empty or
blank is an error, for its line was meant to hold something. Special tokens written in a text
("[SEP]") are themselves, as in `Tokenizer.encode`.

Ids are arrays of 32-bit numbers: 4 bytes a token where a list takes up to 40.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any, cast

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example, TextExample
from bertwright.tasks.instances import Instance, Lengths
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import cut, cut_pair

Windows = tuple[tuple[Sequence[int], ...], tuple[Sequence[int], ...]]
"""Ids of each window and their segments."""

_AT_ONCE = 4096  # examples; the ids of all at once as Python numbers would be ten times theirs


def make_text_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance a text or pair.

    Args:
        task: classification or regression.
        tokenizer: the model's.
        examples: `TextExample`s.

    Raises:
        DataError: an empty text, or a label that the task has not; with the line.
    """
    chosen = cast(Sequence[TextExample], examples)
    numbers = {label: number for number, label in enumerate(task.labels)}
    instances: list[Instance] = []
    lengths = Lengths()
    for begin in range(0, len(chosen), _AT_ONCE):
        part = chosen[begin : begin + _AT_ONCE]
        for number, example in enumerate(part, begin):
            check_text(example.text, "text", example.line, number)
            if example.text2 is not None:
                check_text(example.text2, "text2", example.line, number)
        firsts = tokenizer.encode_bare_ids([example.text for example in part])
        seconds = iter(
            tokenizer.encode_bare_ids([e.text2 for e in part if e.text2 is not None]),
        )
        for number, (example, first) in enumerate(zip(part, firsts, strict=True), begin):
            second = None if example.text2 is None else next(seconds)
            ids, types = read_in_windows(task, tokenizer, first, second)
            label = _label(task, numbers, example, number)
            instances.append(Instance(number, ids, types, label))
            lengths.tokens.append(length_of(first, second))
            lengths.windows += len(ids)
            lengths.in_windows += len(ids) > 1
    lengths.examples = len(instances)
    return instances, lengths


def read_in_windows(
    task: TaskConfig, tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None
) -> Windows:
    """The windows of a text, or of a pair, with [CLS] and [SEP]."""
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    if second is None:
        spans = cut(len(first), task.max_length - 2, task.stride)
        return (
            tuple(array("i", [cls, *first[a:b], sep]) for a, b in spans),
            tuple(_segments(b - a + 2, 0) for a, b in spans),
        )
    pairs = cut_pair(len(first), len(second), task.max_length - 3, task.stride)
    return (
        tuple(array("i", [cls, *first[a:b], sep, *second[c:d], sep]) for (a, b), (c, d) in pairs),
        tuple(_segments(b - a + 2, d - c + 1) for (a, b), (c, d) in pairs),
    )


def length_of(first: Sequence[int], second: Sequence[int] | None) -> int:
    """Tokens of a text or pair, with [CLS] and [SEP], before windows."""
    return len(first) + 2 + (0 if second is None else len(second) + 1)


def check_text(text: str, column: str, line: int, number: int) -> None:
    """Raise DataError for a text that is empty or blank."""
    if not text or text.isspace():
        raise DataError(
            f"{place(line, number)}: {column} is empty; fill it in or take the line out"
        )


def place(line: int, number: int) -> str:
    """Where an example is, for messages."""
    return f"line {line}" if line else f"example {number}"


def label_number(labels: dict[str, int], label: object, where: str) -> int:
    """The number of a label.

    Args:
        labels: the numbers of the task's labels.
        label: what the example has.
        where: its place, for the message.

    Raises:
        DataError: the task has no such label.
    """
    if isinstance(label, str) and label in labels:
        return labels[label]
    near = get_close_matches(str(label), labels, 1, 0.6)
    shown = ", ".join(repr(name) for name in [*labels][:10]) + (", ..." if len(labels) > 10 else "")
    raise DataError(
        f"{where}: the task has no label {label!r}; "
        + (f"did you mean {near[0]!r}? It has " if near else "it has ")
        + f"{len(labels)}: {shown}"
    )


def _label(task: TaskConfig, numbers: dict[str, int], example: TextExample, number: int) -> Any:
    """An example's label as the batch wants it; None where it is not known."""
    label, where = example.label, place(example.line, number)
    if label is None:
        return None
    if task.kind == "regression":
        if not isinstance(label, (int, float)) or not isfinite(label):
            raise DataError(f"{where}: the label is {label!r}; regression expects a number")
        return float(label)
    if task.multi_label:
        held = label if isinstance(label, tuple) else (label,)
        return tuple(sorted({label_number(numbers, name, where) for name in held}))
    if isinstance(label, tuple):
        raise DataError(
            f"{where}: the labels are {', '.join(map(repr, label))}; this task expects one a text "
            "(a task with several is multi_label)"
        )
    return label_number(numbers, label, where)


@lru_cache(maxsize=1 << 16)
def _segments(first: int, second: int) -> Sequence[int]:
    """Zeros, then ones; windows of one shape share them."""
    return array("b", bytes(first) + b"\1" * second)
