"""Cross-validation, where there are too few labelled examples to hold some of them out.

A tenth of a hundred examples says little about a model, and is missed in training. So the examples
are divided into folds, each of which is predicted by a model that was trained on the others.
Together these predictions are of all examples: they choose between the layer that was fitted on the
frozen vectors and the whole training, and they are what a run reports. The model that is saved is
then trained on all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from bertwright.recipes.finetune.setup import Fold, TaskSetup
from bertwright.recipes.finetune.training import SeedRun, judge
from bertwright.tasks.task_data import TaskData
from bertwright.train.log import Log
from bertwright.train.state import Position

T = TypeVar("T")


def of_folds(setup: TaskSetup, find: Callable[[Fold], Sequence[T]]) -> list[T]:
    """Return what `find` returns for the held-out examples of each fold, in the order of all
    examples.
    """
    found: dict[int, T] = {}
    for fold in setup.folds:
        found.update(zip(fold.held, find(fold), strict=True))
    return [found[row] for row in range(len(setup.train.examples))]


def examples_of(setup: TaskSetup, rows: Sequence[int]) -> TaskData:
    """Return some of the examples of a task, by their numbers."""
    examples = [setup.train.examples[row] for row in rows]
    return TaskData(setup.train.name, setup.task, setup.train.tokenizer, examples)


def setup_of(setup: TaskSetup, fold: Fold) -> TaskSetup:
    """Return the task with the examples of a fold as dev, and the others to train on."""
    train, held = (examples_of(setup, rows) for rows in fold)
    return replace(setup, train=train, dev=held, folds=())


def train_by_folds(
    setup: TaskSetup,
    seed: int,
    evaluate: Callable[[TaskSetup], Sequence[SeedRun]],
    train: Callable[[bool], SeedRun],
    log: Log | None,
) -> SeedRun:
    """Choose how far to train by cross-validation, then train on all examples.

    Args:
        evaluate: trains on a task, and returns the evaluations: before the first step, if its head
            begins as a fitted layer, and at the end.
        train: trains on all examples; if its argument is false, up to the fitted layer only.

    Returns:
        The result of training on all examples, with the evaluations of cross-validation.
    """

    def predictions(fold: Fold) -> Sequence[Sequence[Any]]:
        """Return the predictions of each evaluation, for each held-out example."""
        found = evaluate(setup_of(setup, fold))
        return list(zip(*(run.predictions[setup.task_name] for run in found), strict=True))

    choices = []
    for of_evaluation in zip(*of_folds(setup, predictions), strict=True):
        choices.append(SeedRun(seed))
        judge(choices[-1], setup, of_evaluation)
    best = max(choices, key=lambda each: each.score)
    run = train(best is choices[-1])
    run.tasks, run.predictions = best.tasks, best.predictions
    run.evaluations = best.evaluations
    if log is not None:
        for epoch, choice in zip((run.epochs, 0.0), reversed(choices), strict=False):
            metrics = choice.evaluations[setup.task_name].metrics
            log.write({**Position().counted("dev"), "epoch": epoch, **metrics})
    return run
