"""How each kind of task is judged: its statistic, its tables, its errors, and whether it learned.

One function a kind makes a `Judgement` of examples and predictions, row by row. `degenerate` is a
sentence where a model gives every example the same answer although their answers differ: one class,
one choice or one set of labels, numbers that hardly vary (their spread is below 1 % of what it
should be), no entity at all, one tag, always "no answer".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import ChoiceExample, SpanExample, TaggingExample, TextExample
from bertwright.labelled.tag_schemes import chunks
from bertwright.tasks import classification_metrics as classes
from bertwright.tasks.intervals import Statistic, of_sums, ratio
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.span_metrics import best_threshold, rules_for, score_answer, score_answers
from bertwright.tasks.tagging_metrics import EntityCounts, TagCounts

NEVER_VARIES = 0.01
"""Spread of predicted numbers beside that of the true ones, below which they are constant."""


@dataclass
class Judgement:
    """What is known of predictions before intervals are asked for."""

    main: str
    """The metric that selects a model unless another is asked for."""
    statistic: Statistic
    wrong: dict[int, float]
    """Rows that are wrong, each with how sure the model was (regression: how far off)."""
    show: Callable[[int], tuple[str, str]]
    """Gold and predicted of a row, as text."""
    degenerate: str = ""
    per_class: list[dict[str, Any]] = field(default_factory=list)
    confusion: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None
    best: dict[str, float] = field(default_factory=dict)
    """Metrics with a threshold chosen on these examples: no intervals."""
    tuned: dict[str, float] = field(default_factory=dict)
    """The thresholds that gave them."""
    rules: str | None = None
    """Whose rules judged answers: `squad1`, `squad2` or `cmrc`."""


def judge_classes(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Judgement:
    """One class an example. Raises `DataError` for a label the task does not have."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    for example in examples:
        if example.label not in numbers:
            raise _unknown_label(example.line, example.label, task)
    gold = np.array([numbers[cast(str, e.label)] for e in examples], dtype=np.int64)
    said = np.array([numbers[cast(str, p.label)] for p in predictions], dtype=np.int64)
    sure = np.array([p.scores[cast(str, p.label)] for p in predictions])
    number = len(task.labels)
    positive = (task.labels.index("1") if "1" in task.labels else 1) if number == 2 else None
    table = classes.class_counts(gold, said, number).sum(axis=0).reshape(3, -1)
    return Judgement(
        main="accuracy",
        statistic=classes.class_statistic(gold, said, number, positive),
        wrong={int(row): float(sure[row]) for row in np.flatnonzero(gold != said)},
        show=lambda row: (task.labels[gold[row]], task.labels[said[row]]),
        degenerate=_one_answer(gold.tolist(), said.tolist(), lambda n: task.labels[n]),
        per_class=classes.per_class(table, task.labels),
        confusion=classes.confusion_matrix(gold, said, task.labels),
        calibration=classes.calibration(sure, gold == said),
    )


def judge_label_sets(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Judgement:
    """Any number of labels an example. Raises `DataError` for a label the task does not have."""
    gold, said = np.zeros((2, len(examples), len(task.labels)), dtype=np.bool_)
    numbers = {label: number for number, label in enumerate(task.labels)}
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        for label in cast("tuple[str, ...]", example.label):
            if label not in numbers:
                raise _unknown_label(example.line, label, task)
            gold[row, numbers[label]] = True
        said[row, [numbers[label] for label in prediction.label]] = True
    sure = {}
    for row in np.flatnonzero((gold != said).any(1)).tolist():
        scores = [
            predictions[row].scores[task.labels[c]] for c in np.flatnonzero(gold[row] != said[row])
        ]
        sure[row] = max(max(score, 1 - score) for score in scores)
    names = [tuple(np.array(task.labels)[held].tolist()) for held in (*gold, *said)]
    true, chosen = names[: len(examples)], names[len(examples) :]
    return Judgement(
        main="micro_f1",
        statistic=classes.multi_label_statistic(gold, said),
        wrong=sure,
        show=lambda row: (", ".join(true[row]), ", ".join(chosen[row])),
        degenerate=_one_answer(true, chosen, lambda held: ", ".join(held) or "no label"),
        per_class=classes.per_class(
            np.stack([gold & said, said, gold]).sum(1).astype(np.float64), task.labels
        ),
        confusion=classes.confusion_by_label(gold, said, task.labels),
    )


def judge_numbers(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[NumberPrediction]
) -> Judgement:
    """A number an example."""
    gold = np.array([float(cast(float, e.label)) for e in examples])
    said = np.array([p.value for p in predictions], dtype=np.float64)
    if not np.isfinite(said).all():
        row = int(np.flatnonzero(~np.isfinite(said))[0])
        raise DataError(f"prediction {row + 1} is {said[row]}; expected a number")
    degenerate = ""
    if len(set(gold.tolist())) > 1 and said.std() < NEVER_VARIES * gold.std():
        degenerate = f"predicts about {said.mean():.4g} for all {len(said)} examples"
    return Judgement(
        main="pearson",
        statistic=classes.number_statistic(gold, said),
        wrong=dict(enumerate(np.abs(said - gold).tolist())),
        show=lambda row: (f"{gold[row]:.4g}", f"{said[row]:.4g}"),
        degenerate=degenerate,
    )


def judge_tags(
    task: TaskConfig, examples: Sequence[TaggingExample], predictions: Sequence[TaggingPrediction]
) -> Judgement:
    """A tag a word. A tag the task does not have is wrong, not an error."""
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        if len(example.words) != len(prediction.tags):
            raise DataError(
                f"sentence {row + 1} (line {example.line}) has {len(example.words)} words, "
                f"but {len(prediction.tags)} tags were predicted; expected one a word"
            )
    gold = [cast("tuple[str, ...]", e.tags) for e in examples]
    said = [p.tags for p in predictions]
    right = [[a == b for a, b in zip(*pair, strict=True)] for pair in zip(gold, said, strict=True)]
    wrong = {
        row: max(s for s, ok in zip(predictions[row].scores, oks, strict=True) if not ok)
        for row, oks in enumerate(right)
        if not all(oks)
    }
    sure = np.array([s for p in predictions for s in p.scores])
    calibration = classes.calibration(sure, np.array([ok for oks in right for ok in oks], np.bool_))
    tags = TagCounts(gold, said)
    confusion = classes.confusion_matrix(tags.gold, tags.predicted, tags.tags)
    if task.scheme == "none":
        return Judgement(
            main="accuracy",
            statistic=tags.statistic,
            wrong=wrong,
            show=lambda row: (" ".join(gold[row]), " ".join(said[row])),
            degenerate=_one_answer(
                tags.gold.tolist(), tags.predicted.tolist(), tags.tags.__getitem__
            ),
            per_class=classes.per_class(tags.by_tag, tags.tags),
            confusion=confusion,
            calibration=calibration,
        )
    entities = EntityCounts(gold, said)
    _, chosen, true = entities.by_type.sum(1)
    return Judgement(
        main="f1",
        statistic=entities.statistic,
        wrong=wrong,
        show=lambda row: (_entities(examples[row], gold[row]), _entities(examples[row], said[row])),
        degenerate=f"predicts no entity; there are {true:.0f}" if true and not chosen else "",
        per_class=classes.per_class(entities.by_type, entities.types),
        confusion=confusion,
        calibration=calibration,
    )


def judge_answers(
    task: TaskConfig, examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> Judgement:
    """A slice of a passage, or none."""
    gold = [[text for text, _ in e.answers or ()] for e in examples]
    rules = rules_for(gold, task.unanswerable)
    scores = score_answers([p.answer for p in predictions], gold, rules)
    wrong = {
        row: (predictions[row].n_best[0].probability if predictions[row].n_best else 0.0)
        for row in np.flatnonzero(scores.f1 == 0).tolist()
    }
    judgement = Judgement(
        main="f1",
        statistic=scores.statistic,
        wrong=wrong,
        show=lambda row: (gold[row][0] if gold[row] else "", predictions[row].answer),
        rules=rules,
    )
    if scores.has_answer.any() and not any(p.answer for p in predictions):
        judgement.degenerate = f"predicts no answer for all {len(predictions)} questions"
    if task.unanswerable:
        texts = [next((a.text for a in p.n_best if a.text), p.answer) for p in predictions]
        best = np.array([score_answer(t, g, rules) for t, g in zip(texts, gold, strict=True)])
        null = np.array([p.null_score for p in predictions], dtype=np.float64)
        said = np.array([bool(t) for t in texts], dtype=np.float64)
        for name, column in (("exact_match", best[:, 0]), ("f1", best[:, 1])):
            reached = best_threshold(column, scores.has_answer, said, null)
            judgement.best[f"best_{name}"], judgement.tuned[f"best_{name}_threshold"] = reached
    return judgement


def judge_choices(
    task: TaskConfig, examples: Sequence[ChoiceExample], predictions: Sequence[ChoicePrediction]
) -> Judgement:
    """The number of a choice."""
    gold = np.array([e.label for e in examples], dtype=np.int64)
    said = np.array([p.choice for p in predictions], dtype=np.int64)
    sure = np.array([p.scores[p.choice] for p in predictions])
    right = np.stack([gold == said, np.ones(len(gold))], axis=1)
    return Judgement(
        main="accuracy",
        statistic=of_sums(right, lambda sums: {"accuracy": ratio(sums[:, 0], sums[:, 1])}),
        wrong={int(row): float(sure[row]) for row in np.flatnonzero(gold != said)},
        show=lambda row: (examples[row].choices[gold[row]], examples[row].choices[said[row]]),
        degenerate=_one_answer(gold.tolist(), said.tolist(), lambda n: f"choice {n + 1}"),
        calibration=classes.calibration(sure, gold == said),
    )


def _unknown_label(line: int, label: object, task: TaskConfig) -> DataError:
    known = ", ".join(map(repr, task.labels[:20])) + (", ..." if len(task.labels) > 20 else "")
    return DataError(f"line {line}: label {label!r} is not one the task has; expected {known}")


def _one_answer(gold: Sequence[Any], said: Sequence[Any], name: Callable[[Any], str]) -> str:
    """The sentence that names the only answer, where there should be several."""
    if len(set(gold)) < 2 or len(set(said)) > 1:
        return ""
    return f"predicts {name(said[0])!r} for all {len(said)} examples"


def _entities(example: TaggingExample, tags: Sequence[str]) -> str:
    """ "ORG European Union; LOC Brussels"."""
    found = chunks(tags)
    return "; ".join(f"{kind} {example.read(start, end)}" for start, end, kind in found)
