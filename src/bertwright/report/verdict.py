"""Whether a pre-training run has learned, and a fine-tuned one (`results.json`) beats baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Files that fine-tuning leaves in its folder; the last over all tasks of GLUE."""

Results = Mapping[str, Any]
"""`results.json`, read."""


class Verdict(NamedTuple):
    """Whether the model beats the baselines."""

    answer: str
    """`yes`, `perhaps`, `no`, or `unknown`."""
    sentence: str


def pretraining_verdict(
    records: Sequence[Mapping[str, Any]], levels: Mapping[str, float] | None = None
) -> Verdict:
    """Whether a pre-training run has learned what its objectives are about.

    Args:
        records: of `metrics.jsonl`; the last validation counts. Without one nothing is said: the
            lines of training are of few steps each, and of text that is trained on.
        levels: what is right without a model, by key of a record; next sentences have a half.
    """
    levels = {"next_sentence.accuracy": 0.5} | dict(levels or {})
    held_out = [record for record in records if record.get("split") == "dev"]
    last = (held_out or list(records) or [{}])[-1]
    found: dict[str, bool] = {}
    for key, value in last.items():
        level, accuracy = number(levels.get(key)), number(value)
        if level is not None and accuracy is not None:
            name = key.removesuffix(".accuracy").replace("_", " ").replace(" lm", " LM")
            shown = f"{name} {accuracy:.1%} right (without a model {level:.1%})"
            found[shown] = accuracy >= level + (0.05 if name == "next sentence" else 0.02)
    if not found:
        return Verdict("unknown", "")  # losses alone, which nothing compares with
    if not held_out:
        return Verdict(
            "unknown",
            "Whether it has learned is not known: there are no figures on held-out text, which come"
            " every --validation.every-minutes and at the end (unless --validation.fraction is 0).",
        )
    figures = f"on held-out text: {'; '.join(found)}."
    if all(found.values()):
        return Verdict("yes", f"It has learned, {figures}")
    if any(found.values()):
        longer = "The rest takes longer: train longer (--minutes or --steps)."
        return Verdict("perhaps", f"It has learned a part, {figures} {longer}")
    return Verdict(
        "no",
        f"It has learned nothing yet, {figures} Train longer (--minutes or --steps); if that "
        "changes nothing, there is too little text, or something is wrong with it: bertwright data "
        "check says which.",
    )


def interval(results: Results, metric: str) -> tuple[float, float] | None:
    """The metric's confidence interval, if there is one."""
    low, high = map(number, results["intervals"].get(metric) or (None, None))
    return None if low is None or high is None else (low, high)


def show_interval(results: Results, metric: str) -> str:
    """`90.1% to 92.3%`, or `-`."""
    found = interval(results, metric)
    return "-" if found is None else f"{show(metric, found[0])} to {show(metric, found[1])}"


def show_summary(results: Results, metric: str) -> str:
    """Mean and standard deviation of a metric over the seeds."""
    found = results["summary"][metric]
    return spread(metric, found["mean"], found["sd"])


def kept_seed(results: Results) -> Mapping[str, Any]:
    """The seed whose model was saved."""
    kept: list[Mapping[str, Any]] = [
        seed for seed in results["seeds"] if seed["seed"] == results["best_seed"]
    ]
    return kept[0]


def baselines(results: Results, metric: str) -> dict[str, float]:
    """The metric of every baseline that has it."""
    found = {name: number(each.get(metric)) for name, each in results["baselines"].items()}
    return {name: value for name, value in found.items() if value is not None}


def metrics_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: every metric over the seeds, of the saved model, and of the baselines."""
    others, seeds = results["baselines"], len(results["seeds"])
    kept = kept_seed(results)["metrics"]
    columns = ["metric", f"mean ± sd of {seeds} seeds" if seeds > 1 else "value"]
    columns += ["saved model"] if seeds > 1 else []
    columns += ["95% interval of the saved model"] if results["intervals"] else []
    columns += [baseline_title(name) for name in others]
    rows = []
    for metric in results["summary"]:
        row = [title(metric), show_summary(results, metric)]
        row += [show(metric, kept[metric])] if seeds > 1 else []
        row += [show_interval(results, metric)] if results["intervals"] else []
        row += [show(metric, found.get(metric)) for found in others.values()]
        rows.append(row)
    return columns, rows


def verdict(results: Results) -> Verdict:
    """The model against the best baseline, in one plain sentence.

    Yes: the mean over seeds, every seed, and the whole interval are better than the baseline (two
    seeds or an interval at least). No: the mean is not better. Perhaps: everything between.
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
    better = sum(own > 0 for own in gains)
    if gain <= 0:
        fallen = sum(seed["degenerate"] for seed in seeds)
        if fallen and all(s["degenerate"] or own > 0 for s, own in zip(seeds, gains, strict=True)):
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
    """Whether the model that was kept predicts one thing for all, or nothing right."""
    kept = kept_seed(results)
    is_zero = kept["metrics"][results["main"]] == 0 and results["task"]["kind"] != "regression"
    return bool(kept["degenerate"]) or is_zero


def next_steps(results: Results) -> str:
    """What to try where the model is worth less than a baseline, or nothing; else empty."""
    if verdict(results).answer != "no" and not failed(results):
        return ""
    baseline = "; until then the baseline, which costs nothing"
    return (
        "another --learning-rate (lower where it predicts one thing for all, else higher); more "
        "--epochs, if the last one was the best; more labelled examples; a model that was "
        "pre-trained longer, or on text of this kind"
        f"{baseline if baselines(results, results['main']) else ''}"
    )


def falling_loss(results: Results, records: Sequence[Mapping[str, Any]]) -> str:
    """Say that the training loss of the kept seed was still falling, so that more epochs may help;
    empty where it was not. A run too short for two lines of loss in its log is such a run too."""
    seed = results["best_seed"]
    losses = [
        loss
        for record in records
        if record.get("split") == "train" and record.get("seed", seed) == seed
        if (loss := number(record.get("loss"))) is not None
    ]
    if len(losses) < 2:
        return "The run was so short that its log has one training loss"
    if losses[-1] > 0.98 * losses[0]:
        return ""
    return f"The training loss was still falling (from {losses[0]:.3g} to {losses[-1]:.3g})"
