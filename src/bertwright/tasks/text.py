"""Classification and regression: texts and pairs as instances, and their metrics.

Devlin et al. 2019, section 4 and figure 4: a text is [CLS] A [SEP], a pair [CLS] A [SEP] B [SEP]. A
longer one is read in windows (`text/windows.py`), so that no token goes unread. With `both_orders`
a pair is read as A B and as B A, whose scores are merged: of a linear head that is the sum of their
vectors (Radford et al. 2018, section 3.3, similarity). A text of which the tokenizer keeps nothing,
as a zero-width space, is [CLS] [SEP]; one that is empty or blank is an error. Special tokens
written in a text ("[SEP]") are themselves, as in `Tokenizer.encode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example, TextExample, classes_of
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
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
    """One instance a text or pair. Raises `DataError` for an empty text, with its line."""

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
        instances.append(Instance(number, ids, segments, _label(task, numbers, example)))
    return instances, lengths


def _label(task: TaskConfig, numbers: dict[str, int], example: TextExample) -> Any:
    if example.label is None or task.kind == "regression":
        return example.label
    held = tuple(sorted(numbers[label] for label in classes_of(example)))
    return held if task.multi_label else held[0]


def classification_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """One class an example."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[cast(str, e.label)] for e in examples], dtype=np.int64)
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
        per_class=per_class(parts.sum(axis=0), task.labels),
        confusion=confusion_matrix(gold, predicted, task.labels),
        calibration=calibration(confidence, gold == predicted),
    )


def label_set_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """Any number of labels an example."""
    labels = np.array(task.labels)
    gold = np.array([[label in classes_of(e) for label in task.labels] for e in examples])
    predicted = np.array([[label in p.label for label in task.labels] for p in predictions])
    scores = np.array([[p.scores[label] for label in task.labels] for p in predictions])
    surest = np.where(gold != predicted, np.maximum(scores, 1 - scores), 0).max(1)
    true, chosen = ([", ".join(labels[held]) for held in side] for side in (gold, predicted))
    return Metrics(
        main="micro_f1",
        statistic=multi_label_statistic(gold, predicted),
        errors={int(row): float(surest[row]) for row in np.flatnonzero(surest)},
        describe=lambda row: (true[row], chosen[row]),
        degenerate=only_prediction(true, chosen, lambda names: names or "no label"),
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
