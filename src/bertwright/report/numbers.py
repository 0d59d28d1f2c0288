"""How numbers and metrics are shown: on pages, in model cards and on the command line.

Metrics are fractions (0 to 1, shown in percent), correlations or errors, known by their names.
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
}
_BASELINES = {
    "majority": "most frequent label",
    "mean": "mean of the training set",
    "tfidf": "TF-IDF + logistic regression",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "word_shape": "word shapes + logistic regression",
}
_CORRELATIONS = ("matthews", "pearson", "spearman")
_LOWER_IS_BETTER = ("loss", "error")
_NO_FRACTIONS = (*_CORRELATIONS, *_LOWER_IS_BETTER, "threshold", "count")


def title(metric: str) -> str:
    """`macro F1` of `macro_f1`; an unknown name without its underscores."""
    return _TITLES.get(metric, metric.replace("_", " ").replace("f1", "F1"))


def baseline_title(name: str) -> str:
    """What a baseline does, in words."""
    return _BASELINES.get(name, name.replace("_", " "))


def number(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return found if math.isfinite(found) else None


def is_fraction(metric: str) -> bool:
    """Whether a metric goes from 0 to 1, all wrong to all right."""
    return not any(part in metric for part in _NO_FRACTIONS)


def direction(metric: str) -> float:
    """1 of a metric that is better when higher, -1 of one that is better when lower."""
    return -1.0 if any(part in metric for part in _LOWER_IS_BETTER) else 1.0


def show(metric: str, value: object) -> str:
    """A metric's value for readers: `91.2%`, `0.853`; `-` for none."""
    found = number(value)
    if found is None:
        return "-"
    if is_fraction(metric):
        return f"{found:.1%}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{found:.3f}" if abs(found) < 100 else f"{found:,.1f}"


def spread(metric: str, mean: object, sd: object) -> str:
    """`91.2% ± 0.4`; without ± for one seed."""
    shown, found = show(metric, mean), number(sd)
    if found is None or shown == "-":
        return shown
    if shown.endswith("%"):
        return f"{shown} ± {100 * found:.1f}"
    decimals = len(shown.rpartition(".")[2]) if "." in shown else 0
    return f"{shown} ± {found:.{decimals}f}"


def count(value: object) -> str:
    """`12,345` or `6.5M`"""
    found = number(value)
    if found is None:
        return "-"
    return short(found) if found >= 1e6 else f"{found:,.0f}"


def short(value: float) -> str:
    """`250k`, `6.5M`, for axes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
