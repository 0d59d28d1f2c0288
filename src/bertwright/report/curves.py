"""The charts of pages: curves of a pre-training run and of seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from bertwright.report.numbers import baseline_title, direction, is_fraction, number, title
from bertwright.report.plots import Series, chart
from bertwright.report.read import RunFiles, mapping
from bertwright.report.verdict import Results, baselines

_OBJECTIVES = {"masked_lm": "masked LM"}
_OF_TRAINING = {
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm",
    "tokens_per_second": "Tokens per second",
    "utilization": "Utilization (fraction of measured peak)",
    "memory_gb": "Memory (GB)",
}
Record = Mapping[str, Any]
Line = tuple[list[float], list[float]]
"""The xs and ys of a line."""


def objectives(records: Iterable[Record]) -> dict[str, list[str]]:
    """Return the metrics of each objective in the keys of records.

    For example, `masked_lm` has `loss` and `accuracy`.
    """
    metrics_of: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for record in records for key in record):
        name, _, metric = key.rpartition(".")
        if name:
            metrics_of.setdefault(name, []).append(metric)
    return metrics_of


def objective_title(name: str) -> str:
    """Return a title for an objective, such as `masked LM` for `masked_lm`.

    An unknown name is returned without its underscores.
    """
    return _OBJECTIVES.get(name, name.replace("_", " "))


def run_curves(run: RunFiles) -> list[Markup]:
    """Return the charts of a pre-training run, with the number of tokens as the x axis."""
    charts: dict[str, tuple[str, bool]] = {}
    metrics_of = objectives(run.records)
    for name, metrics in metrics_of.items():
        for metric in metrics:
            name_and_metric = f"{objective_title(name)} {title(metric)}"
            name_and_metric = name_and_metric[:1].upper() + name_and_metric[1:]
            charts[f"{name}.{metric}"] = name_and_metric, metric == "accuracy"
    if len(metrics_of) != 1:  # with a single objective, the total loss is the same curve
        charts["loss"] = "Loss, all objectives", False
    charts |= {key: (name, key == "utilization") for key, name in _OF_TRAINING.items()}
    drawn = []
    for key, (name, percent) in charts.items():
        lines = [
            Series(shown, *_points(run.split(split), "tokens", key), style=split)
            for split, shown in (("train", "training"), ("dev", "held out"))
        ]
        if not any(len(line.xs) > 1 for line in lines):
            continue  # a single point is shown as a number above the charts
        level = number(mapping(run.examples.get("baselines")).get(key))
        if level is not None and any(line.ys for line in lines):
            lines.append(Series("baseline", [], [level], "baseline"))
        ys = [y for line in lines for y in line.ys]
        low, high = min(ys, default=0.0), max(ys, default=0.0)
        from_zero = key in _OF_TRAINING or (percent and low < high / 2)
        drawn.append(chart(name, lines, "tokens", percent, from_zero))
    return [each for each in drawn if each]


def seed_curves(results: Results, records: Sequence[Record], prefix: str = "") -> list[Markup]:
    """Return the charts of the main metric, with the best baseline, and of the training loss.

    Each seed has a line.

    Args:
        results: the results of the task.
        records: the records of the log.
        prefix: the prefix of the task's keys if the records are of several tasks.
    """
    main = str(results.get("main", ""))
    dev = [record for record in records if record.get("split") == "dev"]
    train = [record for record in records if record.get("split") == "train"]
    others = baselines(results, main).items()
    best_other = max(others, key=lambda item: direction(main) * item[1], default=None)
    x_key = "epoch" if dev and all(number(r.get("epoch")) is not None for r in dev) else "step"
    charts = []
    for split, key, name, where in (
        (dev, prefix + main, f"Dev {title(main).removesuffix(' correlation')}", x_key),
        (train, prefix + "loss", "Training loss", "step"),
    ):
        drawn = _lines(split, where, key)
        is_main = key == prefix + main
        # Only the best baseline is drawn, because one far below would flatten the curves.
        if drawn and is_main and best_other:
            drawn = [Series(baseline_title(best_other[0]), [], [best_other[1]], "baseline"), *drawn]
        ys = {y for each in drawn for y in each.ys}
        percent = is_main and is_fraction(main) and max(ys, default=0) <= 1
        # If all values are equal, they define no range, so the axis begins at 0.
        charts.append(chart(name, drawn, f"{where}s", percent, from_zero=len(ys) == 1))
    return [each for each in charts if each]


def _lines(records: Sequence[Record], x_key: str, key: str) -> list[Series]:
    """Return a line for each seed. The line of a single seed has marks."""
    drawn = []
    for seed in dict.fromkeys(record.get("seed") for record in records):
        xs, ys = _points([r for r in records if r.get("seed") == seed], x_key, key)
        if ys:
            drawn.append(Series(f"seed {seed}", xs, ys, "seed", "seed"))
    if len(drawn) == 1:
        return [replace(drawn[0], style="dev", legend=None)]
    return drawn


def _points(records: Iterable[Record], x_key: str, key: str) -> Line:
    pairs = [(number(r.get(x_key)), number(r.get(key))) for r in records]
    finite = [(x, y) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in finite], [y for _, y in finite]
