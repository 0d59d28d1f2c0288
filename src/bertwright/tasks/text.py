"""Classification and regression: texts and pairs as instances, and their metrics.

Devlin et al. 2019, section 4 and figure 4: a text is [CLS] A [SEP], a pair [CLS] A [SEP] B [SEP]. A
longer one is read in windows (`text/windows.py`), so that no token goes unread. With `both_orders`
a pair is read as A B and as B A, whose scores are merged: of a linear head that is the sum of their
vectors (Radford et al. 2018, section 3.3, similarity). A text of which the
tokenizer keeps nothing, as a zero-width space, is [CLS] [SEP]; one that is empty or blank is an
error, for its line was meant to hold something. Special tokens written in a text ("[SEP]") are
themselves, as in `Tokenizer.encode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example, TextExample
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    check_text,
    in_parts,
    in_words,
    label_number,
    make_windows,
    whole_length,
)
from bertwright.tasks.metrics import (
    Metrics,
    calibration,
    class_counts,
    class_statistic,
    confusion_by_label,
    confusion_matrix,
    multi_label_statistic,
    number_statistic,
    only_prediction,
    per_class,
)
from bertwright.tasks.predictions import NumberPrediction, TextPrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

NEVER_VARIES = 0.01
"""Predicted numbers count as constant below this fraction of the labels' standard deviation."""


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
    framing = tokenizer.framing
    instances: list[Instance] = []
    lengths = Lengths()
    for begin, end in in_parts(len(e.text) + len(e.text2 or "") for e in chosen):
        part = chosen[begin:end]
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
            ids, segments, lost = make_windows(task, framing, first, second)
            windows = len(ids)
            if task.both_orders and second is not None:
                ids_back, segments_back, _ = make_windows(task, framing, second, first)
                ids, segments = ids + ids_back, segments + segments_back
            label = _label(task, numbers, example, number)
            instances.append(Instance(number, ids, segments, label))
            lengths.tokens.append(whole_length(framing, first, second))
            lengths.windows += windows
            lengths.in_windows += windows > 1
            lengths.cut += lost > 0
            lengths.tokens_cut += lost
    lengths.examples = len(instances)
    return instances, lengths


def _label(task: TaskConfig, numbers: dict[str, int], example: TextExample, number: int) -> Any:
    """An example's label as the batch wants it; None where it is not known."""
    label, where = example.label, in_words(example.line, number)
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


def classification_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """One class an example. Raises `DataError` for a label the task does not have."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    for example in examples:
        if example.label not in numbers:
            raise _unknown_label(example.line, example.label, task)
    gold = np.array([numbers[cast(str, e.label)] for e in examples], dtype=np.int64)
    predicted = np.array([numbers[cast(str, p.label)] for p in predictions], dtype=np.int64)
    confidence = np.array([p.scores[cast(str, p.label)] for p in predictions])
    number = len(task.labels)
    positive = (task.labels.index("1") if "1" in task.labels else 1) if number == 2 else None
    table = class_counts(gold, predicted, number).sum(axis=0).reshape(3, -1)
    return Metrics(
        main="accuracy",
        statistic=class_statistic(gold, predicted, number, positive),
        errors={int(row): float(confidence[row]) for row in np.flatnonzero(gold != predicted)},
        describe=lambda row: (task.labels[gold[row]], task.labels[predicted[row]]),
        degenerate=only_prediction(gold.tolist(), predicted.tolist(), lambda n: task.labels[n]),
        per_class=per_class(table, task.labels),
        confusion=confusion_matrix(gold, predicted, task.labels),
        calibration=calibration(confidence, gold == predicted),
    )


def label_set_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """Any number of labels an example. Raises `DataError` for a label the task does not have."""
    gold, predicted = np.zeros((2, len(examples), len(task.labels)), dtype=np.bool_)
    numbers = {label: number for number, label in enumerate(task.labels)}
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        for label in cast("tuple[str, ...]", example.label):
            if label not in numbers:
                raise _unknown_label(example.line, label, task)
            gold[row, numbers[label]] = True
        predicted[row, [numbers[label] for label in prediction.label]] = True
    confidence = {}
    for row in np.flatnonzero((gold != predicted).any(1)).tolist():
        scores = [
            predictions[row].scores[task.labels[c]]
            for c in np.flatnonzero(gold[row] != predicted[row])
        ]
        confidence[row] = max(max(score, 1 - score) for score in scores)
    names = [tuple(np.array(task.labels)[held].tolist()) for held in (*gold, *predicted)]
    true, chosen = names[: len(examples)], names[len(examples) :]
    return Metrics(
        main="micro_f1",
        statistic=multi_label_statistic(gold, predicted),
        errors=confidence,
        describe=lambda row: (", ".join(true[row]), ", ".join(chosen[row])),
        degenerate=only_prediction(true, chosen, lambda held: ", ".join(held) or "no label"),
        per_class=per_class(
            np.stack([gold & predicted, predicted, gold]).sum(1).astype(np.float64), task.labels
        ),
        confusion=confusion_by_label(gold, predicted, task.labels),
    )


def regression_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[NumberPrediction]
) -> Metrics:
    """A number an example."""
    gold = np.array([float(cast(float, e.label)) for e in examples])
    predicted = np.array([p.value for p in predictions], dtype=np.float64)
    if not np.isfinite(predicted).all():
        row = int(np.flatnonzero(~np.isfinite(predicted))[0])
        raise DataError(f"prediction {row + 1} is {predicted[row]}; expected a number")
    constant = ""
    if len(set(gold.tolist())) > 1 and predicted.std() < NEVER_VARIES * gold.std():
        constant = f"predicts about {predicted.mean():.4g} for all {len(predicted)} examples"
    return Metrics(
        main="pearson",
        statistic=number_statistic(gold, predicted),
        errors=dict(enumerate(np.abs(predicted - gold).tolist())),
        describe=lambda row: (f"{gold[row]:.4g}", f"{predicted[row]:.4g}"),
        degenerate=constant,
    )


def _unknown_label(line: int, label: object, task: TaskConfig) -> DataError:
    known = ", ".join(map(repr, task.labels[:20])) + (", ..." if len(task.labels) > 20 else "")
    return DataError(f"line {line}: label {label!r} is not one the task has; expected {known}")
