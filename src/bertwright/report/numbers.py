"""Format numbers and metrics for pages, model cards and the command line.

The name of a metric says whether it is a fraction (0 to 1, shown in percent), a correlation or an
error.
"""

from __future__ import annotations

import math

_TITLES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "matthews": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "exact_match": "exact match",
    "bleu": "BLEU",
    "rouge_l": "ROUGE-L",
    "pearson_spearman": "Pearson-Spearman mean",
    "average_precision": "average precision",
    "ndcg_at_10": "nDCG at 10",
    "mrr": "mean reciprocal rank",
    "recall_at_1": "recall at 1",
    "recall_at_10": "recall at 10",
    "recall_at_100": "recall at 100",
}
_BASELINES = {
    "majority": "most frequent label",
    "majority_of_file": "most frequent label of this file",
    "mean": "mean of the training set",
    "mean_of_file": "mean of this file",
    "tfidf": "TF-IDF + logistic regression",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "word_shape": "word shapes + logistic regression",
    "tfidf_cosine": "cosine of TF-IDF",
    "bm25": "BM25",
    "untuned": "the model before training",
}
_CORRELATIONS = ("matthews", "pearson", "spearman")
_LOWER_IS_BETTER = ("loss", "error")
_NO_FRACTIONS = (*_CORRELATIONS, *_LOWER_IS_BETTER, "threshold", "count", "bits")


def title(metric: str) -> str:
    """Return the title of a metric, such as `macro F1` for `macro_f1`.

    An unknown name is returned without its underscores.
    """
    return _TITLES.get(metric, metric.replace("_", " ").replace("f1", "F1"))


def baseline_title(name: str) -> str:
    """Return a description of a baseline."""
    return _BASELINES.get(name, name.replace("_", " "))


def number(value: object) -> float | None:
    """Return a value as a float if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        finite = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return finite if math.isfinite(finite) else None


def is_fraction(metric: str) -> bool:
    """Return whether a metric ranges from 0 (all wrong) to 1 (all right)."""
    return not any(part in metric for part in _NO_FRACTIONS)


def direction(metric: str) -> float:
    """Return 1 for a metric that is better if higher, and -1 for one that is better if lower."""
    return -1.0 if any(part in metric for part in _LOWER_IS_BETTER) else 1.0


def show(metric: str, value: object) -> str:
    """Return a metric's value for display, such as `91.2%` or `0.853`; `-` if there is none."""
    finite = number(value)
    if finite is None:
        return "-"
    if is_fraction(metric):
        return f"{finite:.1%}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{finite:.3f}" if abs(finite) < 100 else f"{finite:,.1f}"


def spread(metric: str, mean: object, sd: object) -> str:
    """Return mean and standard deviation as `91.2% ± 0.4`; only the mean if `sd` is None."""
    shown, deviation = show(metric, mean), number(sd)
    if deviation is None or shown == "-":
        return shown
    if shown.endswith("%"):
        return f"{shown} ± {100 * deviation:.1f}"
    decimals = len(shown.rpartition(".")[2]) if "." in shown else 0
    return f"{shown} ± {deviation:.{decimals}f}"


def count(value: object) -> str:
    """Return a count as `12,345` or `6.5M`."""
    finite = number(value)
    if finite is None:
        return "-"
    return short(finite) if finite >= 1e6 else f"{finite:,.0f}"


def short(value: float) -> str:
    """Return a number in a short form for axes, such as `250k` or `6.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
