"""Metrics with confidence intervals: formulas over counts, and the bootstrap over examples.

A statistic is a function of how often a resample contains each example. With a count of one for
each example, it gives the metrics themselves; with R rows of counts, it gives R resamples at once
(a metric that is a formula of sums needs a single matrix product). Metrics are defined as in
scikit-learn and scipy, and the tests compare them with both. An undefined metric is 0: a
correlation with a constant, or the F1 of a class that neither occurs nor is predicted. As in
scikit-learn, the macro average is over the classes that occur or are predicted.

Intervals are percentiles: a resample draws E of the E examples with replacement, the metric is
computed again, and the middle 95 % of its values are the interval.

Sources: Efron, "Bootstrap Methods: Another Look at the Jackknife" (1979); Efron and Tibshirani, "An
Introduction to the Bootstrap" (1993), chapter 13. Matthews' correlation for any number of classes:
Gorodkin (2004). Expected calibration error: Guo, Pleiss, Sun and Weinberger, "On Calibration of
Modern Neural Networks" (ICML 2017), section 2.

Letters: E examples, C classes, R resamples, K sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bertwright.arrays import Bools, Float64s, Int64s

Statistic = Callable[[Float64s], Mapping[str, Float64s]]
"""A function from counts [R, E], how often each resample contains each example, to metrics by name,
each [R].
"""

_CELLS = 2_000_000
"""The most counts held in memory at once."""
DECIMALS = 6
"""The decimals of a cosine that are compared: those of equal texts differ by rounding errors."""
BINS = 10
"""The number of confidence bins of a calibration."""


def of_sums(parts: Any, formula: Callable[[Float64s], Mapping[str, Float64s]]) -> Statistic:
    """Return a statistic that is a formula of sums over examples.

    Args:
        parts: what each example adds to the sums, [E, K], as an array or a sparse matrix of scipy.
        formula: computes the metrics, [R] each, from sums [R, K].
    """
    return lambda counts: formula(counts @ parts)


def value(statistic: Statistic, examples: int) -> dict[str, float]:
    """Return the metrics of the examples themselves."""
    return {name: float(v[0]) for name, v in statistic(np.ones((1, examples))).items()}


def bootstrap(
    statistic: Statistic, examples: int, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Return the lower and upper end of each metric's interval."""
    generator = np.random.default_rng(seed)
    values_of: dict[str, list[Float64s]] = {}
    left, at_once = resamples, max(1, _CELLS // examples)
    while left:
        rows = min(left, at_once)
        left -= rows
        drawn = generator.integers(examples, size=(rows, examples))
        drawn += np.arange(rows)[:, None] * examples
        counts = np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples)
        for name, values in statistic(counts.astype(np.float64)).items():
            values_of.setdefault(name, []).append(values)
    ends = ((1 - level) / 2, (1 + level) / 2)
    both = {name: np.quantile(np.concatenate(chunks), ends) for name, chunks in values_of.items()}
    return {name: (float(low), float(high)) for name, (low, high) in both.items()}


def ratio(over: Float64s, under: Float64s) -> Float64s:
    """Return `over / under`, or 0 where that is undefined."""
    return np.divide(over, under, out=np.zeros(np.shape(over)), where=under > 0)


def f1_of(hits: Float64s, predicted: Float64s, gold: Float64s) -> Float64s:
    """Return F1 from the counts of hits, predicted and gold items."""
    return ratio(2 * hits, predicted + gold)


def macro_f1_of(hits: Float64s, predicted: Float64s, gold: Float64s) -> Float64s:
    """Return the mean F1 over the classes that occur or are predicted: each [R, C] to [R]."""
    seen = (predicted + gold) > 0
    return ratio(f1_of(hits, predicted, gold).sum(1), seen.sum(1).astype(np.float64))


def matthews_of(hits: Float64s, predicted: Float64s, gold: Float64s) -> Float64s:
    """Return Matthews' correlation, from -1 to 1, from counts by class: each [R, C] to [R]."""
    total = gold.sum(1)
    above = hits.sum(1) * total - (predicted * gold).sum(1)
    below = (total**2 - (predicted**2).sum(1)) * (total**2 - (gold**2).sum(1))
    return ratio(above, np.sqrt(np.maximum(below, 0)))


def class_statistic(parts: Any, positive: int | None = None, only: Sequence[str] = ()) -> Statistic:
    """Return the statistic of classification metrics from the counts of `class_counts`.

    With one class for each example, micro F1 equals accuracy; it is included because tables report
    it.

    Args:
        parts: the result of `class_counts`.
        positive: the class whose F1 is the metric `f1`; None: there is no such metric.
        only: the names of the metrics; empty: `accuracy`, `f1`, `macro_f1`, `micro_f1` and
            `matthews`.
    """

    def formula(sums: Float64s) -> Mapping[str, Float64s]:
        hits, chosen, true = np.split(sums, 3, axis=1)  # [R, C] each
        accuracy = ratio(hits.sum(1), true.sum(1))
        metrics = {"accuracy": accuracy}
        if positive is not None:
            metrics["f1"] = f1_of(hits[:, positive], chosen[:, positive], true[:, positive])
        metrics["macro_f1"] = macro_f1_of(hits, chosen, true)
        metrics["micro_f1"] = accuracy
        metrics["matthews"] = matthews_of(hits, chosen, true)
        return {name: metrics[name] for name in only or metrics}

    return of_sums(parts, formula)


def class_counts(
    gold: Int64s, predicted: Int64s, classes: int, sizes: Sequence[int] | None = None
) -> Any:
    """Return a sparse matrix [E, 3 C]: for each class, whether it was right, predicted and true.

    If examples have several labels, such as the words of a sentence, `sizes` [E] is their number.
    """
    from scipy.sparse import csr_array

    examples = len(gold) if sizes is None else len(sizes)
    rows = np.arange(examples) if sizes is None else np.repeat(np.arange(examples), sizes)
    right = gold == predicted
    columns = np.concatenate([gold[right], predicted + classes, gold + 2 * classes])
    rows = np.concatenate([rows[right], rows, rows])
    ones = np.ones(len(rows))
    # csr_array adds the values of repeated cells
    return csr_array((ones, (rows, columns)), shape=(examples, 3 * classes))


def multi_label_statistic(gold: Bools, predicted: Bools) -> Statistic:
    """Return the statistic of `micro_f1`, `macro_f1` and `exact_match` of label sets, [E, C].

    An example is an exact match if all its labels are right.
    """
    classes = gold.shape[1]
    exact = (gold == predicted).all(1, keepdims=True)
    parts = np.concatenate([gold & predicted, predicted, gold, exact, np.ones_like(exact)], axis=1)

    def formula(sums: Float64s) -> Mapping[str, Float64s]:
        hits, chosen, true = (sums[:, i * classes : (i + 1) * classes] for i in range(3))
        return {
            "micro_f1": f1_of(hits.sum(1), chosen.sum(1), true.sum(1)),
            "macro_f1": macro_f1_of(hits, chosen, true),
            "exact_match": ratio(sums[:, -2], sums[:, -1]),
        }

    return of_sums(parts.astype(np.float64), formula)


def number_statistic(gold: Float64s, predicted: Float64s) -> Statistic:
    """Return the statistic of `pearson`, `spearman`, their mean `pearson_spearman`,
    `mean_absolute_error` and `mean_squared_error`.
    """
    from scipy.stats import rankdata

    error = predicted - gold
    errors = np.stack([np.abs(error), error**2], axis=1)

    def statistic(counts: Float64s) -> Mapping[str, Float64s]:
        times = counts.ravel().astype(np.int64)
        # the E examples of each resample
        drawn = np.repeat(np.tile(np.arange(len(gold)), len(counts)), times)
        x, y = (_centred(each)[drawn].reshape(counts.shape) for each in (gold, predicted))
        pearson, spearman = _correlation(x, y), _correlation(*(rankdata(v, axis=1) for v in (x, y)))
        means = counts @ errors / counts.sum(1, keepdims=True)
        return {
            "pearson": pearson,
            "spearman": spearman,
            "pearson_spearman": (pearson + spearman) / 2,
            "mean_absolute_error": means[:, 0],
            "mean_squared_error": means[:, 1],
        }

    return statistic


def _centred(x: Float64s) -> Float64s:
    """Return values with mean 0 and standard deviation 1, so that sums of squares lose no
    precision.
    """
    x = x - x.mean()
    spread = x.std()
    return x / spread if spread > 0 else x


def _correlation(x: Float64s, y: Float64s) -> Float64s:
    """Return Pearson's correlation of each resample: [R, E] each, to [R]."""
    x, y = (v - v.mean(1, keepdims=True) for v in (x, y))
    xx, yy = (x**2).mean(1), (y**2).mean(1)
    # the deviations of a constant are rounding errors, which must not correlate
    below = np.where((xx > 1e-12) & (yy > 1e-12), np.sqrt(xx) * np.sqrt(yy), 0)
    return np.clip(ratio((x * y).mean(1), below), -1, 1)


def per_class(counts: Float64s, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return precision, recall, F1 and support of C labels.

    `counts` [3 C] holds, for the labels, how many items are right, predicted and true.
    """
    hits, chosen, true = counts.reshape(3, -1)
    columns = (ratio(hits, chosen), ratio(hits, true), f1_of(hits, chosen, true))
    return [
        {"label": label, "precision": p, "recall": r, "f1": f, "support": int(n)}
        for label, p, r, f, n in zip(labels, *(c.tolist() for c in columns), true, strict=True)
    ]


def confusion(gold: Int64s, predicted: Int64s, labels: Sequence[str]) -> dict[str, Any]:
    """Return `counts[i][j]`: how many examples of label i were predicted as label j."""
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(gold, predicted, labels=np.arange(len(labels)))
    return {"labels": list(labels), "counts": counts.tolist()}


def calibration(confidence: Float64s, right: Bools) -> dict[str, Any]:
    """Return how often predictions are right, by their confidence [E].

    The `bins` are (0, 0.1], (0.1, 0.2] and so on; empty bins are left out. `error` is the mean
    distance between confidence and accuracy, where each bin is weighted by its number of examples;
    0 is best.
    """
    which = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    counts = np.bincount(which, minlength=BINS)
    sums = np.bincount(which, confidence, BINS), np.bincount(which, right, BINS)
    bins = [
        {"confidence": float(c / n), "accuracy": float(r / n), "count": int(n)}
        for c, r, n in zip(*sums, counts, strict=True)
        if n
    ]
    error = np.abs(sums[0] - sums[1]).sum() / max(1, len(confidence))
    return {"bins": bins, "error": float(error)}


@dataclass(kw_only=True)
class Tables:
    """Further results of an evaluation, besides the metrics."""

    per_class: list[dict[str, Any]] = field(default_factory=list)
    """`label`, `precision`, `recall`, `f1`, `support` for each class, type of entity or tag."""
    confusion: dict[str, Any] | None = None
    """`labels` and `counts[gold][predicted]`, which count examples or, for tags, words. None for
    multi-label classification and for tasks without classes.
    """
    calibration: dict[str, Any] | None = None
    """The `bins` of confidence that are not empty, and the expected calibration `error`."""
    tuned: dict[str, float] = field(default_factory=dict)
    """The null thresholds that are best on these examples."""
    rules: str | None = None
    """The rules for comparing answers: `squad1`, `squad2`, `cmrc` (Chinese), or those of another
    script.
    """
    signatures: dict[str, str] = field(default_factory=dict)
    """How BLEU and ROUGE-L of generated texts were computed, such as with which tokenizer."""


@dataclass(kw_only=True)
class Metrics(Tables):
    """The metrics of predictions, before their intervals are computed."""

    main: str
    """The metric that selects a model by default."""
    statistic: Statistic
    errors: dict[int, float]
    """The confidence of each wrong prediction by the index of its example; for regression, the
    absolute error.
    """
    describe: Callable[[int], tuple[str, str]]
    """Returns the gold label and the prediction of an example as text, given its index."""
    degenerate: str = ""
    """A description of predictions that are the same for every example although the labels differ:
    a single class or set of labels, numbers that hardly vary, no entity at all, always "no answer".
    Empty if they are not.
    """
    best: dict[str, float] = field(default_factory=dict)
    """Metrics whose threshold (in `tuned`) was chosen on these examples; they have no intervals."""


def only_prediction(
    gold: Sequence[Any], predicted: Sequence[Any], name: Callable[[Any], str]
) -> str:
    """Return a description of the only prediction if there should be several, else ""."""
    if len(set(gold)) < 2 or len(set(predicted)) > 1:
        return ""
    return f"predicts {name(predicted[0])!r} for all {len(predicted)} examples"
