"""What `results.json` of a fine-tuned run says, in words: for the page of the run and for the card.

Metrics are shares (0 to 1, shown in percent), correlations or errors, known by their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

RESULTS, PREDICTIONS, GLUE = "results.json", "dev-predictions.jsonl", "glue.json"
"""Files that fine-tuning leaves in its folder; the last over all tasks of GLUE."""

Results = Mapping[str, Any]
"""`results.json`, read."""

_TITLES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "matthews": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "exact_match": "exact match",
    "pearson_spearman": "Pearson-Spearman mean",
}
_BASELINES = {
    "majority": "the most frequent answer",
    "mean": "the mean of the training set",
    "tfidf": "TF-IDF + logistic regression",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "overlap": "the most words in common",
    "word_shape": "word shapes + logistic regression",
}
_CORRELATIONS = ("matthews", "pearson", "spearman")
_LESS_IS_MORE = ("loss", "error")
_NO_SHARES = (*_LESS_IS_MORE, "threshold", "count")


def title(metric: str) -> str:
    """`macro F1` of `macro_f1`; a name that is not known as it is, without underscores."""
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
    except OverflowError:  # a whole number of more than 308 digits
        return None
    return found if math.isfinite(found) else None


def is_share(metric: str) -> bool:
    """Whether a metric goes from 0 to 1, all wrong to all right."""
    return not any(part in metric for part in (*_CORRELATIONS, *_NO_SHARES))


def direction(metric: str) -> float:
    """1 of a metric that is better when large, -1 of one that is better when small."""
    return -1.0 if any(part in metric for part in _LESS_IS_MORE) else 1.0


def show(metric: str, value: object) -> str:
    """A metric's value as one reads it: `91.2%`, `0.853`; `-` for none."""
    found = number(value)
    if found is None:
        return "-"
    if isinstance(value, int) and not is_share(metric):
        return f"{value:,}"
    if is_share(metric):
        return f"{found:.1%}"
    return f"{found:.3f}" if abs(found) < 100 else f"{found:,.1f}"


def spread(metric: str, mean: object, sd: object) -> str:
    """`91.2% ± 0.4`; without ± where there is one seed."""
    shown, found = show(metric, mean), number(sd)
    if found is None or shown == "-":
        return shown
    in_percent = shown.endswith("%")
    return f"{shown} ± {100 * found:.1f}" if in_percent else f"{shown} ± {_digits(shown, found)}"


def interval(results: Results, metric: str) -> tuple[float, float] | None:
    """The metric's confidence interval, if there is one."""
    found = (results.get("intervals") or {}).get(metric)
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return None
    low, high = number(found[0]), number(found[1])
    return None if low is None or high is None else (low, high)


def show_interval(results: Results, metric: str) -> str:
    """`90.1% to 92.3%`, or `-`."""
    found = interval(results, metric)
    return "-" if found is None else f"{show(metric, found[0])} to {show(metric, found[1])}"


def show_summary(results: Results, metric: str) -> str:
    """Mean and sd of a metric over the seeds."""
    found = (results.get("summary") or {}).get(metric) or {}
    several = len(results.get("seeds") or []) > 1
    return spread(metric, found.get("mean"), found.get("sd") if several else None)


def baselines(results: Results, metric: str) -> dict[str, float]:
    """The metric of every baseline that has it."""
    found = {
        str(name): number(metrics.get(metric))
        for name, metrics in (results.get("baselines") or {}).items()
    }
    return {name: value for name, value in found.items() if value is not None}


class Verdict(NamedTuple):
    """Whether the BERT is worth it."""

    answer: str
    """`yes`, `perhaps`, `no`, or `unknown`."""
    sentence: str


def verdict(results: Results) -> Verdict:
    """The BERT beside the best baseline, in one plain sentence.

    Yes: the mean over seeds, every seed, and the whole interval are better than the baseline (two
    seeds or an interval at least). No: the mean is not better. Perhaps: what is between.
    """
    metric = str(results.get("main", ""))
    mean = number(((results.get("summary") or {}).get(metric) or {}).get("mean"))
    others = baselines(results, metric)
    seeds = results.get("seeds") or []
    if mean is None:
        return Verdict("unknown", "The run has no main metric.")
    if not others:
        return Verdict(
            "unknown", "Nothing was measured beside it, so nobody can say: run the baselines too."
        )
    if seeds and all(seed.get("degenerate") for seed in seeds):
        return Verdict("no", "No: every run is degenerate, it gives all examples one answer.")
    sign = direction(metric)
    name, other = max(others.items(), key=lambda item: sign * item[1])
    best = f"{show(metric, other)} of {baseline_title(name)}"
    gain = sign * (mean - other)
    size = f"{abs(100 * gain):.1f} points" if is_share(metric) else f"{abs(gain):.3g}"
    beside = f"{show(metric, mean)} {title(metric)} against {best}"
    learned = [seed for seed in seeds if not seed.get("degenerate")]
    if gain <= 0 and len(learned) < len(seeds):
        reached = [v for v in map(_main_of(metric), learned) if v is not None]
        if reached and all(sign * (value - other) > 0 for value in reached):
            fallen = len(seeds) - len(learned)
            return Verdict(
                "perhaps",
                f"Perhaps: {beside}, for {fallen} of {len(seeds)} seeds learned nothing; "
                f"the others reach {show(metric, sum(reached) / len(reached))}.",
            )
    if gain <= 0:
        return Verdict(
            "no", f"No: {beside}; {size} worse." if gain else f"No: {beside}; no better."
        )
    above = sum(v is not None and sign * (v - other) > 0 for v in map(_main_of(metric), seeds))
    between = interval(results, metric)
    shown = show_interval(results, metric)
    if above < len(seeds):
        doubt = f"but only {above} of {len(seeds)} seeds are better than that"
    elif between is None and len(seeds) < 2:
        doubt = "but one seed without an interval cannot tell that from chance"
    elif between is not None and min(sign * (end - other) for end in between) <= 0:
        doubt = f"but the 95% interval of the kept model ({shown}) reaches that baseline"
    else:
        whole = f", and so is the whole 95% interval of the kept model ({shown})" if between else ""
        every = "every seed is better" if len(seeds) > 1 else "the run is better"
        return Verdict("yes", f"Yes: {beside}; {size} better. {every.capitalize()}{whole}.")
    return Verdict("perhaps", f"Perhaps: {beside}; {size} better, {doubt}.")


def _main_of(metric: str) -> Callable[[Mapping[str, Any]], float | None]:
    """What takes the metric from a seed."""
    return lambda seed: number((seed.get("metrics") or {}).get(metric))


def _digits(shown: str, value: float) -> str:
    """A number with as many digits behind the point as another has."""
    return f"{value:.{len(shown.rpartition('.')[2]) if '.' in shown else 0}f}"
