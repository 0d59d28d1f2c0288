"""The charts of pages: curves of a pre-training run, of seeds, and by the number of labels."""

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
METHODS = {
    "pretrained": ("pre-trained, fine-tuned", "tuned"),
    "frozen": ("pre-trained, frozen, linear layer", "frozen"),
    "random_start": ("random initialization, fine-tuned", "random"),
    "tfidf": ("TF-IDF + logistic regression", "words"),
    "majority": ("most frequent label", "baseline"),
}
"""The name and line style of each method of a learning curve."""
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


def labelled_chart(curve: Mapping[str, Any]) -> Markup:
    """Return a chart of accuracy by number of labelled examples, from `learning_curve.json`."""
    sizes = [f"{int(size):,}" for size in curve["sizes"]]
    lines = []
    for method in curve["methods"]:
        name, style = METHODS.get(method["name"], (str(method["name"]), "train"))
        ys = [float(value) for value in method["accuracy"]]
        lines.append(Series(name, [float(n) for n in range(len(ys))], ys, style, legend=""))
    return chart("Test accuracy", lines, "labelled examples", True, True, sizes)


def method_title(name: str) -> str:
    """Return the description of a method of a learning curve."""
    return METHODS[name][0] if name in METHODS else name.replace("_", " ")


def task_sentence(curve: Mapping[str, Any]) -> str:
    """Return a description of the task of a learning curve."""
    labels = curve["labels"]
    shortest, longest = curve["words"]
    return (
        f"Which of {len(labels)} packages ({', '.join(labels)}) does a passage of documentation "
        f"belong to? A passage has {shortest} to {longest} words; the packages' names are replaced "
        f'by "{curve["hidden"]}". The {int(curve["test"]["examples"]):,} test passages come from '
        "modules held out of pre-training and fine-tuning; all labels are equally frequent."
    )


def conclusion(curve: Mapping[str, Any]) -> str:
    """Return a sentence that says whether pre-training is worth it with the fewest and with the
    most labelled examples.
    """
    methods = {method["name"]: method for method in curve["methods"]}
    phrase = (
        "with {} labelled examples the pre-trained model is right in {:.1%}, TF-IDF in {:.1%}, "
        "random initialization in {:.1%}"
    )
    wins, parts = [], []
    for index in sorted({0, len(curve["sizes"]) - 1}):
        ours, *others = (
            float(methods[name]["accuracy"][index])
            for name in ("pretrained", "tfidf", "random_start")
        )
        wins.append(methods["pretrained"]["intervals"][index][0] > max(others))
        parts.append(phrase.format(f"{int(curve['sizes'][index]):,}", ours, *others))
        phrase = "with {} in {:.1%}, {:.1%}, {:.1%}"
    answer = "pays off where labels are few" if wins[0] else "does not clearly pay off"
    return f"Pre-training {'pays off' if all(wins) else answer}: {'; '.join(parts)}."


def best_sentence(curve: Mapping[str, Any]) -> str:
    """Return a sentence with the best method at each size and the methods in its 95 % interval."""
    parts = []
    for index, size in enumerate(curve["sizes"]):
        ranked = sorted(curve["methods"], key=lambda method: -float(method["accuracy"][index]))
        names = [f"{method_title(m['name'])} ({m['accuracy'][index]:.1%})" for m in ranked]
        low = float(ranked[0]["intervals"][index][0])
        level = [n for n, m in zip(names, ranked, strict=True) if m["accuracy"][index] >= low][1:]
        doubt = f", not clearly ahead of {' and '.join(level)}" if level else ""
        parts.append(f"with {int(size):,}, {names[0]}{doubt}")
    return f"Best {'; '.join(parts)}."


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
