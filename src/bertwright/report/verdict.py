"""Verdicts: whether a pre-training run has learned, and whether a fine-tuned model is better than
the baselines.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from bertwright.report.numbers import (
    baseline_title,
    direction,
    is_fraction,
    number,
    show,
    spread,
    title,
)
from bertwright.report.sentences import sentence

RESULTS, PREDICTIONS, GLUE = "results.json", "dev-predictions.jsonl", "glue.json"
"""The files of results of a fine-tuned run; the last one has those of all tasks of GLUE."""

Results = Mapping[str, Any]
"""The content of `results.json`."""


class Verdict(NamedTuple):
    """Whether a model is better than baselines, as an answer and a sentence."""

    answer: str
    """`yes`, `perhaps`, `no`, or `unknown`."""
    sentence: str


class Tested(NamedTuple):
    """The result of a model on a test, and what counts as learned."""

    what: str
    """What it has right, as the beginning of "... in 90% (of 200)"."""
    right: float
    """The fraction that is right."""
    cases: int
    chance: float
    """The fraction that is right without training."""
    enough: float
    """The fraction that the whole interval must exceed if the model has learned."""

    @property
    def ends(self) -> tuple[float, float]:
        """The 95 % interval of the fraction."""
        return wilson(self.right, self.cases)

    @property
    def answer(self) -> str:
        """`yes`, `perhaps` if the interval is above chance alone, or `no`."""
        low, _ = self.ends
        return "yes" if low > self.enough else "perhaps" if low > self.chance else "no"


def wilson(fraction: float, count: int) -> tuple[float, float]:
    """Return the ends of Wilson's 95 % interval of a fraction of `count` independent cases."""
    z = 1.959964
    middle = fraction + z * z / (2 * count)
    half = z * math.sqrt(fraction * (1 - fraction) / count + z * z / (4 * count * count))
    whole = 1 + z * z / count
    return (middle - half) / whole, (middle + half) / whole


def verdict_of_tests(tests: Sequence[Tested], longer: str) -> Verdict:
    """Return whether a model has learned all of several tests, with the worst result first.

    Args:
        tests: the results, at least one.
        longer: what to do if it has not.
    """
    rank = ("no", "perhaps", "yes")
    ordered = sorted(tests, key=lambda each: (rank.index(each.answer), each.ends[0] - each.enough))
    worst, best = ordered[0].answer, ordered[-1].answer
    answer = worst if worst == "yes" or best == "no" else "perhaps"
    return Verdict(
        answer, sentence("verdict", "tests", answer=answer, tests=ordered, longer=longer)
    )


class Learned(NamedTuple):
    """The accuracy of an objective on held-out text, and that without a model."""

    name: str
    accuracy: float
    level: float
    margin: float
    """The accuracy must exceed the level by this."""
    ends: tuple[float, float] | None
    """The 95 % interval of the accuracy, whose lower end must exceed the level; None: unknown."""

    @property
    def has_learned(self) -> bool:
        """Whether the objective is learned."""
        low = self.accuracy if self.ends is None else self.ends[0]
        return self.accuracy >= self.level + self.margin and low > self.level


def pretraining_verdict(
    records: Sequence[Mapping[str, Any]],
    levels: Mapping[str, float] | None = None,
    counts: Mapping[str, int] | None = None,
    further: Callable[[], tuple[bool, str] | None] = lambda: None,
) -> Verdict:
    """Return whether a pre-training run has learned its objectives.

    Args:
        records: the records of `metrics.jsonl`, of which the last validation is used. Without a
            validation, the verdict is unknown, because a record of training covers only a few
            steps, on text that is trained on.
        levels: the accuracy without a model, by key of a record. The default for next sentences is
            0.5.
        counts: the number of predictions of the validation, by key of a record. If it is known, the
            lower end of the accuracy's interval must be above the level.
        further: a further test, done if the others are passed: whether it is passed, and its
            figures in words; None: there is none.
    """
    has_levels, levels = bool(levels), {"next_sentence.accuracy": 0.5} | dict(levels or {})
    held_out = [record for record in records if record.get("split") == "dev"]
    last = (held_out or list(records) or [{}])[-1]
    objectives = []
    for key, value in last.items():
        level, accuracy = number(levels.get(key)), number(value)
        if level is not None and accuracy is not None:
            name = key.removesuffix(".accuracy").replace("_", " ").replace(" lm", " LM")
            count = (counts or {}).get(key)
            ends = wilson(accuracy, count) if count else None
            margin = 0.05 if name == "next sentence" else 0.02
            objectives.append(Learned(name, accuracy, level, margin, ends))
    if not objectives and (held_out or not has_levels):
        return Verdict("unknown", "")  # there are only losses, which have no reference level
    passed, figures = True, ""
    if not held_out:
        answer = "unknown"
    elif all(each.has_learned for each in objectives):
        passed, figures = further() or (True, "")
        answer = "yes" if passed else "perhaps"
    else:
        answer = "perhaps" if any(each.has_learned for each in objectives) else "no"
    said = sentence("verdict", "pretraining", answer=answer, objectives=objectives, further=figures)
    return Verdict(answer, said)


def interval(results: Results, metric: str) -> tuple[float, float] | None:
    """Return the confidence interval of a metric, or None if there is none."""
    low, high = map(number, results["intervals"].get(metric) or (None, None))
    return None if low is None or high is None else (low, high)


def show_interval(results: Results, metric: str) -> str:
    """Return the interval as `90.1% to 92.3%`; `-` if there is none."""
    ends = interval(results, metric)
    return "-" if ends is None else f"{show(metric, ends[0])} to {show(metric, ends[1])}"


def show_summary(results: Results, metric: str) -> str:
    """Return the mean and the standard deviation of a metric over the seeds for display."""
    summary = results["summary"][metric]
    return spread(metric, summary["mean"], summary["sd"])


def kept_seed(results: Results) -> Mapping[str, Any]:
    """Return the results of the seed whose model was saved."""
    saved: list[Mapping[str, Any]] = [
        seed for seed in results["seeds"] if seed["seed"] == results["best_seed"]
    ]
    return saved[0]


def baselines(results: Results, metric: str) -> dict[str, float]:
    """Return the value of a metric for every baseline that has it."""
    all_values = {name: number(each.get(metric)) for name, each in results["baselines"].items()}
    return {name: value for name, value in all_values.items() if value is not None}


def metrics_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a table with the metrics.

    It has every metric over the seeds, of the saved model, and of the baselines.
    """
    others, seeds = results["baselines"], len(results["seeds"])
    saved = kept_seed(results)["metrics"]
    columns = ["metric", f"mean ± sd of {seeds} seeds" if seeds > 1 else "value"]
    columns += ["saved model"] if seeds > 1 else []
    columns += ["95% interval of the saved model"] if results["intervals"] else []
    columns += [baseline_title(name) for name in others]
    rows = []
    for metric in results["summary"]:
        row = [title(metric), show_summary(results, metric)]
        row += [show(metric, saved[metric])] if seeds > 1 else []
        row += [show_interval(results, metric)] if results["intervals"] else []
        row += [show(metric, found.get(metric)) for found in others.values()]
        rows.append(row)
    return columns, rows


def verdict(results: Results) -> Verdict:
    """Compare the model with the best baseline, in one sentence.

    The answer is `yes` if the mean over seeds, every seed, and the whole interval are better than
    the baseline, which needs at least two seeds or an interval. It is `no` if the mean is not
    better, or every seed is degenerate. It is `unknown` without a baseline or a main metric, and
    otherwise `perhaps`. It is also `perhaps` if the mean is not better because some seeds are
    degenerate, but all other seeds are better.
    """
    metric, seeds = results["main"], results["seeds"]
    mean = number(results["summary"][metric]["mean"])
    others = baselines(results, metric)
    if mean is None:
        return Verdict("unknown", sentence("verdict", "no_metric"))
    if not others:
        return Verdict("unknown", sentence("verdict", "no_baseline"))
    if all(seed["degenerate"] for seed in seeds):
        return Verdict("no", sentence("verdict", "all_degenerate"))
    sign = direction(metric)
    name, best = max(others.items(), key=lambda item: sign * item[1])
    gains = [sign * (seed["metrics"][metric] - best) for seed in seeds]
    better = [gain > 0 for gain in gains]
    degenerate = [bool(seed["degenerate"]) for seed in seeds]
    ends = interval(results, metric)
    gain = sign * (mean - best)
    doubt = ""
    if gain <= 0:
        fallen = any(degenerate) and all(map(operator.or_, degenerate, better))
        answer, doubt = ("perhaps", "degenerate") if fallen else ("no", "")
    elif not all(better):
        answer, doubt = "perhaps", "seeds"
    elif ends is None and len(seeds) < 2:
        answer, doubt = "perhaps", "one seed"
    elif ends is not None and min(sign * (end - best) for end in ends) <= 0:
        answer, doubt = "perhaps", "interval"
    else:
        answer = "yes"
    said = sentence(
        "verdict",
        "beside_baseline",
        answer=answer,
        doubt=doubt,
        metric=metric,
        mean=mean,
        baseline=name,
        best=best,
        gain=gain,
        is_fraction=is_fraction(metric),
        seeds=len(seeds),
        better=sum(better),
        degenerate=sum(degenerate),
        ends=ends,
    )
    return Verdict(answer, said)


def failed(results: Results) -> bool:
    """Return whether the saved model predicts the same for all examples, or nothing correctly."""
    saved = kept_seed(results)
    is_zero = saved["metrics"][results["main"]] == 0 and is_fraction(results["main"])
    return bool(saved["degenerate"]) or is_zero


def next_steps(results: Results) -> str:
    """Return a text with what to try if the model failed or is no better than a baseline.

    Otherwise, the result is empty.
    """
    if verdict(results).answer != "no" and not failed(results):
        return ""
    return sentence(
        "verdict",
        "next_steps",
        without_steps=bool(results.get("fit")),
        has_baselines=bool(baselines(results, results["main"])),
    )


def falling_loss(results: Results, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the training loss of the saved seed fell during the log; else empty.

    More epochs may then help. There is also a sentence if the log has fewer than two losses.
    """
    losses = _losses(results, records)
    if len(losses) < 2:
        return sentence("verdict", "one_loss")
    if losses[-1] > 0.98 * losses[0]:
        return ""
    return sentence("verdict", "falling_loss", first=losses[0], last=losses[-1])


def needs_epochs(results: Results, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the saved seed was still learning at the end of training; else empty.

    The seed was still learning if the training loss of the last quarter is at least 5 % below that
    of the quarter before, and dev was best in the last tenth of the run. If the loss falls while
    dev gets worse, the model only memorizes examples. The result is also empty if the log has too
    few training losses to tell, or if dev was not evaluated on the way (cross-validation).
    """
    kept, losses = kept_seed(results), _losses(results, records)
    quarter = len(losses) // 4
    if results.get("data", {}).get("dev", {}).get("folds"):
        return ""
    if not quarter or kept["best_epoch"] < 0.9 * kept["epochs"]:
        return ""
    before, last = fmean(losses[-2 * quarter : -quarter]), fmean(losses[-quarter:])
    if last > 0.95 * before:
        return ""
    return sentence("verdict", "needs_epochs", before=before, last=last)


def _losses(results: Results, records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the training losses of the saved seed in the order of the log."""
    seed = results["best_seed"]
    return [
        loss
        for record in records
        if record.get("split") == "train" and record.get("seed", seed) == seed
        if (loss := number(record.get("loss"))) is not None
    ]
