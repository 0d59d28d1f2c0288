"""What the page of a fine-tuned run shows of a task, from its `results.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from bertwright.config import values
from bertwright.report.curves import Record, seed_curves
from bertwright.report.numbers import (
    baseline_title,
    count,
    direction,
    duration,
    number,
    show,
    title,
)
from bertwright.report.plots import Series, chart
from bertwright.report.read import mapping
from bertwright.report.verdict import (
    Results,
    baselines,
    interval,
    metrics_table,
    next_steps,
    show_summary,
    verdict,
)

MOST_CLASSES = 30
"""A confusion matrix of more cannot be read."""
MOST_METRICS = 4
"""Columns of metrics in the table of seeds."""


def kind_of(results: Results) -> str:
    """`multi-label classification`"""
    task = mapping(results.get("task"))
    if task.get("multi_label"):
        return "multi-label classification"
    return str(task.get("kind", "")).replace("-", " ")


def task_facts(results: Results, records: Sequence[Record], prefix: str = "") -> dict[str, Any]:
    """The variables of `task.html.j2`.

    Args:
        prefix: begins the task's keys in the records of several tasks.
    """
    main = str(results.get("main", ""))
    columns, rows = metrics_table(results)
    found = [m for seed in results.get("seeds") or [] for m in mapping(seed.get("metrics"))]
    labels = [str(label) for label in mapping(results.get("confusion")).get("labels") or []]
    counts = mapping(results.get("confusion")).get("counts") or []
    return {
        "results": results,
        "task": mapping(results.get("task")),
        "kind": kind_of(results),
        "main": main,
        "headline": list(_headline(results)),
        "verdict": verdict(results),
        "next_steps": next_steps(results),
        "compared": _compared(results, main),
        "curves": seed_curves(results, records, prefix),
        "metric_columns": columns,
        "metric_rows": rows,
        "seed_metrics": list(dict.fromkeys([main, *found]))[:MOST_METRICS],
        "labels": labels,
        "matrix": counts if len(labels) <= MOST_CLASSES else [],
        "layers": _layers(mapping(results.get("layer_weights"))),
        "calibration": _calibration(mapping(results.get("calibration"))),
        "settings": values.flatten(dict(mapping(results.get("settings")))),
        "task_settings": values.flatten(dict(mapping(results.get("task")))),
    }


def _headline(results: Results) -> Iterator[tuple[str, str]]:
    """The figures readers look for first."""
    main = str(results.get("main", ""))
    seeds = results.get("seeds") or []
    over = f"mean ± sd of {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    yield show_summary(results, main), f"{title(main)} on dev, {over}"
    if found := interval(results, main):
        low, high = (show(main, end).removesuffix("%") for end in found)
        yield f"{low} to {high}", "95% interval of the saved model, by bootstrap of dev"
    for name, value in baselines(results, main).items():
        yield show(main, value), f"{title(main)} of {baseline_title(name)}"
    if degenerate := sum(bool(seed.get("degenerate")) for seed in seeds):
        yield f"{degenerate} of {len(seeds)}", "seeds degenerate: one prediction for all examples"
    if diverged := len(results.get("diverged") or []):
        yield f"{diverged} of {len(seeds) + diverged}", "seeds diverged, not in any figure"
    data = mapping(results.get("data"))
    train, dev = (mapping(data.get(split)).get("examples") for split in ("train", "dev"))
    if train and dev:
        yield count(train), f"training examples; {count(dev)} of dev"
    seconds = [s for s in (number(seed.get("seconds")) for seed in seeds) if s is not None]
    if seconds:
        yield duration(fmean(seconds)), "per seed" + (", on average" if len(seconds) > 1 else "")


def _compared(results: Results, main: str) -> list[tuple[str, float, bool]]:
    """The model and its baselines as bars: name, value, is it the best."""
    mean = number(mapping(mapping(results.get("summary")).get(main)).get("mean"))
    others = baselines(results, main)
    if mean is None or not others:
        return []
    found = {"this model": mean, **{baseline_title(name): each for name, each in others.items()}}
    best = max(found.values(), key=lambda value: direction(main) * value)
    return [(name, value, value == best) for name, value in found.items()]


def _layers(weights: Mapping[str, Any]) -> Markup:
    """How much the head reads of each layer; empty where that is not learned."""
    found = {int(layer): value for layer, each in weights.items() if (value := number(each))}
    names = ["embeddings", *map(str, range(1, max(found, default=0) + 1))]
    line = Series("weight", list(found), list(found.values()), "dev", legend="")
    return chart("Weight of a layer", [line], "layer", True, from_zero=True, x_labels=names)


def _calibration(found: Mapping[str, Any]) -> dict[str, float]:
    """The mean probability of what is predicted, how much of it is correct, and the error."""
    bins = [each for each in found.get("bins") or [] if each["count"]]
    total = sum(each["count"] for each in bins)
    if not total:
        return {}
    means = {
        key: sum(each[key] * each["count"] for each in bins) / total
        for key in ("confidence", "accuracy")
    }
    return {**means, "error": found["error"], "total": total}
