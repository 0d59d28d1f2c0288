"""Compute all metrics of a task, with confidence intervals, from examples and predictions.

`evaluate` works for any kind of task; the metrics of a kind are defined in its own file. Metrics
lie between 0 and 1, and correlations between -1 and 1. `mean_absolute_error` and
`mean_squared_error` have no upper bound; smaller values of them are better.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.labelled.examples import Example
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.metrics import Tables, bootstrap, value
from bertwright.tasks.predictions import Prediction

BETTER_WHEN_SMALL = ("mean_absolute_error", "mean_squared_error")


def metrics_of(task: TaskConfig) -> tuple[str, ...]:
    """Return the names of a task's metrics. The first is the main one, which selects a model."""
    names: tuple[str, ...] = kind_of(task.kind).metric_names(task)
    return names


def check_main(names: Collection[str], metric: str) -> None:
    """Raise ConfigError unless `metric` is one of `names` and can select a model."""
    if metric not in names:
        raise ConfigError(f"metric {metric!r} is not one of this task: {', '.join(names)}")
    if metric in BETTER_WHEN_SMALL:
        raise ConfigError(
            f"{metric} is better when small and cannot select a model; name another first"
        )


@dataclass(kw_only=True)
class Evaluation(Tables):
    """The metrics of a model's predictions, with intervals, tables and the worst errors."""

    metrics: dict[str, float]
    main: str
    """The metric that selects a model; larger is better."""
    intervals: dict[str, tuple[float, float]]
    """95 % confidence intervals. Metrics whose threshold was chosen on the same examples have
    none.
    """
    worst: list[dict[str, Any]]
    """The errors with the highest score: `text`, `text2`, `gold`, `predicted`, `score`, `line`. The
    score is the probability of the prediction; for regression the absolute error, for generation
    1 - ROUGE-L, for similarity the distance from the right cosine, threshold or rank.
    """
    degenerate: bool
    """Whether the model predicts the same for every example although the labels differ."""
    warnings: list[str]
    """Warnings for the user; if the predictions are degenerate, one says what is predicted."""
    examples: int

    @property
    def score(self) -> float:
        """The value of the main metric."""
        return self.metrics[self.main]

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON; the keys are those of `results.json`."""
        return vars(self) | {"intervals": {name: [*ends] for name, ends in self.intervals.items()}}


def evaluate(
    task: TaskConfig,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    intervals: bool = True,
    main: str | None = None,
    worst: int = 20,
) -> Evaluation:
    """Evaluate predictions, one for each example, in the same order.

    Args:
        intervals: whether to bootstrap 95 % intervals (1,000 resamples; a few seconds for 10,000
            examples with the slowest metric, Spearman's correlation).
        main: the metric that selects a model; the default is the first of `metrics_of`.
        worst: the most errors to list.
    """
    kind = kind_of(task.kind)
    metrics = kind.metrics(task, examples, predictions)
    values = value(metrics.statistic, len(examples)) | metrics.best
    main = main or metrics.main
    check_main(values, main)
    names = [main, *(name for name in values if name != main)]
    ends = bootstrap(metrics.statistic, len(examples)) if intervals else {}
    surest = sorted(metrics.errors.items(), key=lambda item: (-item[1], item[0]))[:worst]
    warnings = []
    if metrics.degenerate:
        warnings = [f"degenerate: the model {metrics.degenerate}"]
    elif values[main] == 0 and metrics.errors and not kind.correlates:
        warnings = [
            f"{main} is 0: no prediction is right; check that the column which is read holds the "
            "labels, and train for more epochs"
        ]
    return Evaluation(
        **{field.name: getattr(metrics, field.name) for field in fields(Tables)},
        metrics={name: values[name] for name in names},
        main=main,
        intervals={name: ends[name] for name in names if name in ends},
        worst=[
            _error(examples[row], kind.shown(examples[row]), metrics.describe(row), score)
            for row, score in surest
        ],
        degenerate=bool(metrics.degenerate),
        warnings=warnings,
        examples=len(examples),
    )


def _error(
    example: Example,
    texts: tuple[str | None, str | None],
    labels: tuple[str, str],
    score: float,
) -> dict[str, Any]:
    """Return one of the worst errors, for JSON."""
    error = {"text": texts[0], "text2": texts[1], "gold": labels[0], "predicted": labels[1]}
    return error | {"score": score, "line": example.line}
