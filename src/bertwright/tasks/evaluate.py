"""From examples and predictions to all metrics of a task, with their intervals.

`evaluate` takes any kind of task; the metrics of a kind stand in its own file. Metrics lie between
0 and 1; correlations between -1 and 1; `mean_absolute_error` and `mean_squared_error` have no upper
end and are better when small.

| kind | metrics, the main one (it selects a model) first |
|---|---|
| classification | accuracy, f1 (two labels: of "1", or else of the second), macro_f1, micro_f1, \
matthews |
| classification, multi-label | micro_f1, macro_f1, exact_match |
| regression | pearson, spearman, pearson_spearman (their mean), the two errors |
| tagging | f1, precision, recall of entities, accuracy of words |
| tagging without a scheme | accuracy, macro_f1 |
| span | f1, exact_match; with unanswerable questions also has_answer_f1, has_answer_exact_match, \
no_answer_exact_match, best_f1, best_exact_match |
| multiple choice | accuracy |
| generation | rouge_l, bleu, exact_match |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import Example, GenerationExample, SpanExample, TaggingExample
from bertwright.tasks.generation_metrics import generation_metrics
from bertwright.tasks.metrics import Metrics, bootstrap, value
from bertwright.tasks.multiple_choice import choice_metrics
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.span import span_metrics
from bertwright.tasks.tagging import tagging_metrics
from bertwright.tasks.text import classification_metrics, label_set_metrics, regression_metrics

BETTER_WHEN_SMALL = ("mean_absolute_error", "mean_squared_error")

_METRICS: dict[str, Callable[..., Metrics]] = {
    "classification": classification_metrics,
    "multi-label": label_set_metrics,
    "regression": regression_metrics,
    "tagging": tagging_metrics,
    "span": span_metrics,
    "multiple-choice": choice_metrics,
    "generation": generation_metrics,
}


def metrics_of(task: TaskConfig) -> tuple[str, ...]:
    """The names of a task's metrics, the main one first."""
    if task.multi_label:
        return "micro_f1", "macro_f1", "exact_match"
    if task.kind == "classification":
        return "accuracy", *(("f1",) if len(task.labels) == 2 else ()), *_CLASSES
    if task.kind == "tagging":
        entities = "f1", "precision", "recall", "accuracy"
        return ("accuracy", "macro_f1") if task.scheme == "none" else entities
    if task.kind == "span":
        return ("f1", "exact_match", *(_UNANSWERABLE if task.unanswerable else ()))
    if task.kind == "regression":
        return "pearson", "spearman", "pearson_spearman", *BETTER_WHEN_SMALL
    return ("rouge_l", "bleu", "exact_match") if task.kind == "generation" else ("accuracy",)


_GOLD = {TaggingExample: "tags", SpanExample: "answers", GenerationExample: "target"}
"""What is predicted of an example, where it is not its `label`."""
_CLASSES = ("macro_f1", "micro_f1", "matthews")
_UNANSWERABLE = (
    *("has_answer_exact_match", "has_answer_f1", "no_answer_exact_match"),
    *("best_exact_match", "best_f1"),
)


def check_main(task: TaskConfig, metric: str) -> None:
    """Raise ConfigError unless `metric` can select a model of this task."""
    _main(metric, metrics_of(task))


@dataclass(frozen=True)
class Evaluation:
    """All that is known of a model's predictions."""

    metrics: dict[str, float]
    main: str
    """The metric that selects a model: more is better."""
    intervals: dict[str, tuple[float, float]]
    """95 % intervals; none for metrics whose threshold was chosen on the same examples."""
    per_class: list[dict[str, Any]]
    """`label`, `precision`, `recall`, `f1`, `support`: by class, type of entity or tag."""
    confusion: dict[str, Any] | None
    """`labels`, and `counts[gold][predicted]`; of examples or, for tags, of words. None
    where several labels hold at once."""
    calibration: dict[str, Any] | None
    """`bins` of confidence that are not empty, and the expected calibration `error`."""
    worst: list[dict[str, Any]]
    """The errors with the highest confidence: `text`, `text2`, `gold`, `predicted`, `score` (the
    confidence; regression: how far off), `line`."""
    degenerate: bool
    """The model predicts the same for every example."""
    warnings: list[str]
    """Among them the sentence that names that prediction."""
    tuned: dict[str, float]
    """Null thresholds that are best on these examples."""
    rules: str | None
    """By whose rules answers are compared: `squad1`, `squad2` or `cmrc` (Chinese)."""
    examples: int

    @property
    def score(self) -> float:
        """The main metric."""
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
        intervals: whether to bootstrap 95 % intervals (1,000 resamples; about a second for 10,000
            examples of the slowest metric, Spearman's).
        main: the metric that selects; unset: the first of the table above.
        worst: how many errors to show.

    Raises:
        ConfigError: a metric the task does not have, or a main one that is better when small.
        DataError: no examples, another number of predictions, an example without a label or with a
            label that the task does not have.
    """
    _check(examples, predictions)
    found = _METRICS["multi-label" if task.multi_label else task.kind](task, examples, predictions)
    values = value(found.statistic, len(examples)) | found.best
    main = _main(main or found.main, values)
    names = [main, *(name for name in values if name != main)]
    ends = bootstrap(found.statistic, len(examples)) if intervals else {}
    surest = sorted(found.errors.items(), key=lambda item: (-item[1], item[0]))[:worst]
    warnings = []
    if found.degenerate:
        warnings = [f"degenerate: the model {found.degenerate}"]
    elif values[main] == 0 and found.errors and task.kind != "regression":
        warnings = [
            f"{main} is 0: nothing the model predicts is right; see whether the labels are in "
            "the column that is read, and train for more epochs"
        ]
    return Evaluation(
        metrics={name: values[name] for name in names},
        main=main,
        intervals={name: ends[name] for name in names if name in ends},
        per_class=found.per_class,
        confusion=found.confusion,
        calibration=found.calibration,
        worst=[_error(examples[row], found.describe(row), score) for row, score in surest],
        degenerate=bool(found.degenerate),
        warnings=warnings,
        tuned=found.tuned,
        rules=found.rules,
        examples=len(examples),
    )


def _main(metric: str, names: Collection[str]) -> str:
    if metric not in names:
        raise ConfigError(f"metric {metric!r} is not one of this task: {', '.join(names)}")
    if metric in BETTER_WHEN_SMALL:
        raise ConfigError(
            f"{metric} is better when small and cannot select a model; name another first"
        )
    return metric


def _check(examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    if not examples:
        raise DataError("there are no examples to evaluate on; expected 1 or more")
    if len(examples) != len(predictions):
        raise DataError(
            f"{len(predictions)} predictions for {len(examples)} examples; expected one each"
        )
    for number, example in enumerate(examples, 1):
        if getattr(example, _GOLD.get(type(example), "label")) is None:
            where = f"line {example.line}" if example.line else f"example {number}"
            raise DataError(f"{where}: no label; evaluation needs one for every example")


def _error(example: Example, shown: tuple[str, str], score: float) -> dict[str, Any]:
    """One of the worst, for JSON."""
    text2: str | None = None
    match example:
        case TaggingExample():
            text = example.read() if example.text is None else example.text
        case SpanExample():
            text, text2 = example.question, example.context
        case GenerationExample():
            text = example.source
        case _:
            text, text2 = example.text, example.text2 or None
    found = {"text": text, "text2": text2, "gold": shown[0], "predicted": shown[1]}
    return found | {"score": score, "line": example.line}
