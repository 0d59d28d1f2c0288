"""How sure a metric is: percentile intervals by the bootstrap over examples.

Source: Efron, "Bootstrap Methods: Another Look at the Jackknife" (1979); Efron and Tibshirani, "An
Introduction to the Bootstrap" (1993), chapter 13 (percentiles). A resample draws E of the E
examples with replacement; the metric is computed anew; the middle 95 % of its values are the
interval. It tells how much the score hangs on these examples, not on the seed of the training.

A resample is kept as counts: how often each example was drawn. A metric is written once, for such
counts; one of each example gives the metric itself. Metrics that are means or formulas of sums are
then one matrix product.

Letters: E examples, R resamples, K sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bertwright.arrays import Float64s

Statistic = Callable[[Float64s], Mapping[str, Float64s]]
"""From counts [R, E], how often each resample holds each example, to metrics by name, each [R]."""

_CELLS = 2_000_000
"""Counts held at once."""


def of_sums(parts: Any, formula: Callable[[Float64s], Mapping[str, Float64s]]) -> Statistic:
    """A statistic that is a formula of sums over examples.

    `parts` [E, K], an array or a sparse matrix of scipy; `formula` takes sums [R, K].
    """
    return lambda counts: formula(counts @ parts)


def value(statistic: Statistic, examples: int) -> dict[str, float]:
    """The metrics of the examples themselves."""
    return {name: float(v[0]) for name, v in statistic(np.ones((1, examples))).items()}


def bootstrap(
    statistic: Statistic, examples: int, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> dict[str, tuple[float, float]]:
    """The lower and upper end of each metric's interval.

    Raises `ValueError` without examples or resamples, or with a level that is not between 0 and 1.
    """
    if examples < 1 or resamples < 1:
        raise ValueError(f"{resamples} resamples of {examples} examples; expected 1 or more")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; expected more than 0 and less than 1")
    generator = np.random.default_rng(seed)
    found: dict[str, list[Float64s]] = {}
    left, at_once = resamples, max(1, _CELLS // examples)
    while left:
        rows = min(left, at_once)
        left -= rows
        drawn = generator.integers(examples, size=(rows, examples))
        drawn += np.arange(rows)[:, None] * examples
        counts = np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples)
        for name, values in statistic(counts.astype(np.float64)).items():
            found.setdefault(name, []).append(values)
    ends = ((1 - level) / 2, (1 + level) / 2)
    intervals = {}
    for name, chunks in found.items():
        low, high = np.quantile(np.concatenate(chunks), ends)
        intervals[name] = (float(low), float(high))
    return intervals


def ratio(over: Float64s, under: Float64s) -> Float64s:
    """`over / under`, and 0 where that is undefined."""
    return np.divide(over, under, out=np.zeros(np.shape(over)), where=under > 0)
