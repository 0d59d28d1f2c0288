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
from bertwright.labelled.examples import Example, TextExample, classes_of
from bertwright.labelled.texts import unknown_label
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    make_windows,
    tokenized,
    whole_length,
)
from bertwright.tasks.metrics import (
    Metrics,
    calibration,
    class_counts,
    class_statistic,
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

    Raises:
        DataError: an empty text, or a label that the task has not; with the line.
    """

    def texts_of(example: TextExample) -> dict[str, str]:
        second = {} if example.text2 is None else {"text2": example.text2}
        return {"text": example.text} | second

    chosen, framing = cast(Sequence[TextExample], examples), tokenizer.framing
    numbers = {label: number for number, label in enumerate(task.labels)}
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example, (first, *others) in tokenized(tokenizer, chosen, texts_of):
        second = others[0] if others else None
        ids, segments, lost = make_windows(task, framing, first, second)
        lengths.add(whole_length(framing, first, second), len(ids), lost)
        if task.both_orders and second is not None:
            ids_back, segments_back, _ = make_windows(task, framing, second, first)
            ids, segments = ids + ids_back, segments + segments_back
        label = _label(task, numbers, example, number)
        instances.append(Instance(number, ids, segments, label))
    return instances, lengths


def _label(task: TaskConfig, numbers: dict[str, int], example: TextExample, number: int) -> Any:
    label, where = example.label, in_words(example, number)
    if label is None:
        return None
    if task.kind == "regression":
        if not isinstance(label, (int, float)) or not isfinite(label):
            raise DataError(f"{where}: the label is {label!r}; regression expects a number")
        return float(label)
    if isinstance(label, tuple) and not task.multi_label:
        raise DataError(
            f"{where}: the labels are {', '.join(map(repr, label))}; this task expects one a text "
            "(a task with several is multi_label)"
        )
    held = label if isinstance(label, tuple) else (label,)
    found = [_number(numbers, each, where) for each in held]
    return tuple(sorted({*found})) if task.multi_label else found[0]


def _number(numbers: dict[str, int], label: Any, where: str) -> int:
    if label not in numbers:
        raise unknown_label(str(label), [*numbers], where)
    return numbers[label]


def classification_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """One class an example. Raises `DataError` for a label the task does not have."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    held = (_number(numbers, e.label, in_words(e, n)) for n, e in enumerate(examples, 1))
    gold = np.fromiter(held, np.int64)
    predicted = np.array([numbers[cast(str, p.label)] for p in predictions], dtype=np.int64)
    confidence = np.array([p.scores[cast(str, p.label)] for p in predictions])
    number = len(task.labels)
    positive = (task.labels.index("1") if "1" in task.labels else 1) if number == 2 else None
    parts = class_counts(gold, predicted, number)
    return Metrics(
        main="accuracy",
        statistic=class_statistic(parts, positive),
        errors={int(row): float(confidence[row]) for row in np.flatnonzero(gold != predicted)},
        describe=lambda row: (task.labels[gold[row]], task.labels[predicted[row]]),
        degenerate=only_prediction(gold.tolist(), predicted.tolist(), lambda n: task.labels[n]),
        per_class=per_class(parts.sum(axis=0).reshape(3, -1), task.labels),
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
        for label in classes_of(example):
            gold[row, _number(numbers, label, in_words(example, row + 1))] = True
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
