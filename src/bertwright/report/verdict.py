"""Verdicts: whether a pre-training run has learned, and whether a fine-tuned model is better than
the baselines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

    def __str__(self) -> str:
        low, high = self.ends
        return (
            f"{self.what} in {self.right:.1%} of {self.cases:,} (95% interval {100 * low:.1f} to "
            f"{100 * high:.1f}; without training {100 * self.chance:.3g}, enough "
            f"{100 * self.enough:.3g})"
        )


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
    figures = "; ".join(map(str, ordered))
    worst, best = ordered[0].answer, ordered[-1].answer
    if worst == "yes":
        return Verdict("yes", f"It has learned: {figures}.")
    if best == "no":
        return Verdict("no", f"It has learned nothing yet: {figures}. {longer}")
    of = f", of {len(tests)} tests the worst first" if len(tests) > 1 else ""
    return Verdict("perhaps", f"It has learned a part{of}: {figures}. {longer}")


def pretraining_verdict(
    records: Sequence[Mapping[str, Any]],
    levels: Mapping[str, float] | None = None,
    counts: Mapping[str, int] | None = None,
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
    """
    has_levels, levels = bool(levels), {"next_sentence.accuracy": 0.5} | dict(levels or {})
    held_out = [record for record in records if record.get("split") == "dev"]
    last = (held_out or list(records) or [{}])[-1]
    has_learned: dict[str, bool] = {}
    for key, value in last.items():
        level, accuracy = number(levels.get(key)), number(value)
        if level is not None and accuracy is not None:
            name = key.removesuffix(".accuracy").replace("_", " ").replace(" lm", " LM")
            margin, within = (0.05 if name == "next sentence" else 0.02), ""
            lowest = accuracy
            if count := (counts or {}).get(key):
                lowest, high = wilson(accuracy, count)
                within = f"95% interval {100 * lowest:.1f} to {100 * high:.1f}, "
            shown = f"{name} {accuracy:.1%} right ({within}without a model {level:.1%})"
            has_learned[shown] = accuracy >= level + margin and lowest > level
    if not has_learned and (held_out or not has_levels):
        return Verdict("unknown", "")  # there are only losses, which have no reference level
    if not held_out:
        return Verdict(
            "unknown",
            "Whether it has learned is not known: there are no figures on held-out text, which come"
            " every --validation.every-minutes and at the end (unless --validation.fraction is 0).",
        )
    figures = f"on held-out text: {'; '.join(has_learned)}."
    if all(has_learned.values()):
        return Verdict("yes", f"It has learned, {figures}")
    if any(has_learned.values()):
        longer = "The rest takes longer: train longer (--minutes or --steps)."
        return Verdict("perhaps", f"It has learned a part, {figures} {longer}")
    return Verdict(
        "no",
        f"It has learned nothing yet, {figures} Train longer (--minutes or --steps); if that "
        "changes nothing, there is too little text, or something is wrong with it: bertwright data "
        "check says which.",
    )


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
        return Verdict("unknown", "The run has no main metric.")
    if not others:
        return Verdict(
            "unknown",
            "No baseline was run, so there is nothing to compare with; --baselines runs some.",
        )
    if all(seed["degenerate"] for seed in seeds):
        return Verdict("no", "No: every seed is degenerate, predicting the same for all examples.")
    sign = direction(metric)
    name, best = max(others.items(), key=lambda item: sign * item[1])
    gain = sign * (mean - best)
    size = f"{abs(100 * gain):.1f} points" if is_fraction(metric) else f"{abs(gain):.3g}"
    compared = (
        f"{show(metric, mean)} {title(metric)} against {show(metric, best)} "
        f"of the best baseline ({baseline_title(name)})"
    )
    gains = [sign * (seed["metrics"][metric] - best) for seed in seeds]
    better = sum(seed_gain > 0 for seed_gain in gains)
    if gain <= 0:
        fallen = sum(seed["degenerate"] for seed in seeds)
        if fallen and all(
            seed["degenerate"] or seed_gain > 0
            for seed, seed_gain in zip(seeds, gains, strict=True)
        ):
            of = f"{fallen} of {len(seeds)} seeds are degenerate, the others are better"
            return Verdict("perhaps", f"Perhaps: {compared}; {of}.")
        return Verdict("no", f"No: {compared}; {f'{size} worse' if gain else 'no better'}.")
    between = interval(results, metric)
    shown = f"95% interval of the saved model ({show_interval(results, metric)})"
    if better < len(seeds):
        doubt = f"only {better} of {len(seeds)} seeds are better than the baseline"
    elif between is None and len(seeds) < 2:
        doubt = "it is one seed without an interval, which may be luck"
    elif between is not None and min(sign * (end - best) for end in between) <= 0:
        doubt = f"the {shown} reaches the baseline"
    else:
        whole = f", and so is the whole {shown}" if between else ""
        return Verdict("yes", f"Yes: {compared}; {size} better. Every seed is better{whole}.")
    return Verdict("perhaps", f"Perhaps: {compared}; {size} better, but {doubt}.")


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
    baseline = "; until then the baseline, which costs nothing"
    if results.get("fit"):  # without steps
        training = "--transfer finetune, which trains the encoder too"
    else:
        training = (
            "another --learning-rate (lower where it predicts one thing for all, else higher); "
            "more --epochs, if the last one was the best"
        )
    return (
        f"{training}; more labelled examples; a model that was pre-trained longer, or on text of "
        f"this kind{baseline if baselines(results, results['main']) else ''}"
    )


def falling_loss(results: Results, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the training loss of the saved seed fell during the log; else empty.

    More epochs may then help. There is also a sentence if the log has fewer than two losses.
    """
    losses = _losses(results, records)
    if len(losses) < 2:
        return "The run was so short that its log has one training loss"
    if losses[-1] > 0.98 * losses[0]:
        return ""
    return f"The training loss was still falling (from {losses[0]:.3g} to {losses[-1]:.3g})"


def needs_epochs(results: Results, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the saved seed was still learning at the end of training; else empty.

    The seed was still learning if the training loss of the last quarter is at least 5 % below that
    of the quarter before, and dev was best in the last tenth of the run. If the loss falls while
    dev gets worse, the model only memorizes examples. The result is also empty if the log has too
    few training losses to tell.
    """
    kept, losses = kept_seed(results), _losses(results, records)
    quarter = len(losses) // 4
    if not quarter or kept["best_epoch"] < 0.9 * kept["epochs"]:
        return ""
    before, last = fmean(losses[-2 * quarter : -quarter]), fmean(losses[-quarter:])
    if last > 0.95 * before:
        return ""
    return (
        f"The training loss was still falling at the end (from {before:.3g} to {last:.3g} in the "
        "last quarter), and the last weights were the best"
    )


def _losses(results: Results, records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the training losses of the saved seed in the order of the log."""
    seed = results["best_seed"]
    return [
        loss
        for record in records
        if record.get("split") == "train" and record.get("seed", seed) == seed
        if (loss := number(record.get("loss"))) is not None
    ]
