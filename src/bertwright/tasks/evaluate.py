"""From examples and predictions to all metrics of a task, with their intervals.

`evaluate` takes any kind of task; the metrics of a kind stand in its own file. Metrics lie between
0 and 1; correlations between -1 and 1; `mean_absolute_error` and `mean_squared_error` have no upper
end and are better when small.
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
    """Return the names of a task's metrics, the main one (it selects a model) first."""
    names: tuple[str, ...] = kind_of(task.kind).metric_names(task)
    return names


def check_main(names: Collection[str], metric: str) -> None:
    """Raise ConfigError unless `metric` is one of these and can select a model."""
    if metric not in names:
        raise ConfigError(f"metric {metric!r} is not one of this task: {', '.join(names)}")
    if metric in BETTER_WHEN_SMALL:
        raise ConfigError(
            f"{metric} is better when small and cannot select a model; name another first"
        )


@dataclass(kw_only=True)
class Evaluation(Tables):
    """All that is known of a model's predictions."""

    metrics: dict[str, float]
    main: str
    """The metric that selects a model: more is better."""
    intervals: dict[str, tuple[float, float]]
    """95 % intervals; none for metrics whose threshold was chosen on the same examples."""
    worst: list[dict[str, Any]]
    """The errors with the highest confidence: `text`, `text2`, `gold`, `predicted`, `score` (the
    confidence; regression: how far off), `line`."""
    degenerate: bool
    """The model predicts the same for every example."""
    warnings: list[str]
    """Among them the sentence that names that prediction."""
    examples: int

    @property
    def score(self) -> float:
        """Return the value of the main metric."""
        return self.metrics[self.main]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the keys are those of `results.json`."""
        return vars(self) | {"intervals": {name: [*ends] for name, ends in self.intervals.items()}}


def evaluate(
    task: TaskConfig,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    intervals: bool = True,
    main: str | None = None,
    worst: int = 20,
) -> Evaluation:
    """Evaluate the predictions, one an example, in the same order.

    Args:
        intervals: whether to bootstrap 95 % intervals (1,000 resamples; some seconds for 10,000
            examples of the slowest metric, Spearman's).
        main: the metric that selects; unset: the first of `metrics_of`.
        worst: how many errors to show.

    Raises:
        ConfigError: a metric the task does not have, or a main one that is better when small.
        DataError: a predicted number that is not finite.
    """
    kind = kind_of(task.kind)
    found = kind.metrics(task, examples, predictions)
    values = value(found.statistic, len(examples)) | found.best
    main = main or found.main
    check_main(values, main)
    names = [main, *(name for name in values if name != main)]
    ends = bootstrap(found.statistic, len(examples)) if intervals else {}
    surest = sorted(found.errors.items(), key=lambda item: (-item[1], item[0]))[:worst]
    warnings = []
    if found.degenerate:
        warnings = [f"degenerate: the model {found.degenerate}"]
    elif values[main] == 0 and found.errors and not kind.correlates:
        warnings = [
            f"{main} is 0: nothing the model predicts is right; see whether the labels are in "
            "the column that is read, and train for more epochs"
        ]
    return Evaluation(
        **{field.name: getattr(found, field.name) for field in fields(Tables)},
        metrics={name: values[name] for name in names},
        main=main,
        intervals={name: ends[name] for name in names if name in ends},
        worst=[
            _error(examples[row], kind.shown(examples[row]), found.describe(row), score)
            for row, score in surest
        ],
        degenerate=bool(found.degenerate),
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
    found = {"text": texts[0], "text2": texts[1], "gold": labels[0], "predicted": labels[1]}
    return found | {"score": score, "line": example.line}
