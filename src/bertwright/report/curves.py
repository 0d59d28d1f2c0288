"""The curves of pages: of a pre-training run, over seeds, and by number of labelled examples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from bertwright.report.numbers import baseline_title, direction, is_fraction, number, title
from bertwright.report.plots import Series, chart
from bertwright.report.read import Run, mapping
from bertwright.report.verdict import Results, baselines

MOST_MARKS = 12
"""A mean of more points is drawn without marks."""
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
"""Name and line style of each method of a learning curve."""
Record = Mapping[str, Any]
Line = tuple[list[float], list[float]]
"""xs and ys."""


def objectives(records: Iterable[Record]) -> dict[str, list[str]]:
    """Objectives in the keys of records, each with its metrics: `masked_lm`: `loss`, `accuracy`."""
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for record in records for key in record):
        name, _, metric = key.rpartition(".")
        if name:
            found.setdefault(name, []).append(metric)
    return found


def objective_title(name: str) -> str:
    """`masked LM` of `masked_lm`; an unknown name without its underscores."""
    return _OBJECTIVES.get(name, name.replace("_", " "))


def run_curves(run: Run) -> dict[str, list[Markup]]:
    """The charts of a run, over tokens and over time."""
    charts: dict[str, tuple[str, bool]] = {}
    found = objectives(run.records)
    for name, metrics in found.items():
        for metric in metrics:
            name_and_metric = f"{objective_title(name)} {title(metric)}"
            charts[f"{name}.{metric}"] = _capitalized(name_and_metric), metric == "accuracy"
    if len(found) != 1:  # the loss of a single objective is the same
        charts["loss"] = "Loss, all objectives", False
    charts |= {key: (name, key == "utilization") for key, name in _OF_TRAINING.items()}
    unit, size = _unit_of_time(number(run.records[-1].get("seconds")) or 0.0)
    made: dict[str, list[Markup]] = {"tokens": [], "time": []}
    for kind, x_key, x_name, x_unit in (
        ("tokens", "tokens", "tokens", 1.0),
        ("time", "seconds", unit, size),
    ):
        for key, (name, percent) in charts.items():
            lines = [
                Series(shown, *_points(run.split(split), x_key, key, x_unit), style=split)
                for split, shown in (("train", "training"), ("dev", "held out"))
            ]
            level = number(mapping(run.examples.get("baselines")).get(key))
            if level is not None and any(line.ys for line in lines):
                lines.append(Series("baseline", [], [level], "baseline"))
            ys = [y for line in lines for y in line.ys]
            low, high = min(ys, default=0.0), max(ys, default=0.0)
            from_zero = key in _OF_TRAINING or (percent and low < high / 2)
            made[kind].append(chart(name, lines, x_name, percent, from_zero))
    return {kind: [each for each in charts if each] for kind, charts in made.items()}


def seed_curves(results: Results, records: Sequence[Record], prefix: str = "") -> list[Markup]:
    """The main metric and the losses: a thin line a seed, their mean, and the best baseline.

    Args:
        results: of one task.
        records: of `metrics.jsonl`.
        prefix: begins the task's keys in the records of several tasks.
    """
    return [each for each in _seed_charts(results, records, prefix) if each]


def mean_line(lines: Sequence[Line]) -> Line:
    """The mean of lines over the range that all of them cover, each straight between points."""
    lines = [line for line in lines if line[0]]
    if not lines:
        return [], []
    low, high = max(xs[0] for xs, _ in lines), min(xs[-1] for xs, _ in lines)
    shared = sorted({x for xs, _ in lines for x in xs if low <= x <= high})
    return shared, [sum(_at(line, x) for line in lines) / len(lines) for x in shared]


def labelled_chart(found: Mapping[str, Any]) -> Markup:
    """Accuracy by number of labelled examples, a line a method, of `learning_curve.json`."""
    sizes = [f"{int(size):,}" for size in found["sizes"]]
    lines = []
    for method in found["methods"]:
        name, style = METHODS.get(method["name"], (str(method["name"]), "train"))
        ys = [float(value) for value in method["accuracy"]]
        lines.append(Series(name, [float(n) for n in range(len(ys))], ys, style, legend=""))
    return chart("Test accuracy", lines, "labelled examples", True, True, sizes)


def method_title(name: str) -> str:
    """A method of a learning curve in words."""
    return METHODS[name][0] if name in METHODS else name.replace("_", " ")


def task_sentence(found: Mapping[str, Any]) -> str:
    """The task of a learning curve."""
    labels = found["labels"]
    shortest, longest = found["words"]
    return (
        f"Which of {len(labels)} packages ({', '.join(labels)}) does a passage of documentation "
        f"belong to? A passage has {shortest} to {longest} words; the packages' names are replaced "
        f'by "{found["hidden"]}". The {int(found["test"]["examples"]):,} test passages come from '
        "modules held out of pre-training and fine-tuning; all labels are equally frequent."
    )


def conclusion(found: Mapping[str, Any]) -> str:
    """Whether pre-training pays off, by the smallest and the largest size, in one sentence."""
    methods = {method["name"]: method for method in found["methods"]}
    phrase = (
        "with {} labelled examples the pre-trained model is right in {:.1%}, TF-IDF in {:.1%}, "
        "random initialization in {:.1%}"
    )
    wins, parts = [], []
    for index in sorted({0, len(found["sizes"]) - 1}):
        ours, *others = (
            float(methods[name]["accuracy"][index])
            for name in ("pretrained", "tfidf", "random_start")
        )
        wins.append(methods["pretrained"]["intervals"][index][0] > max(others))
        parts.append(phrase.format(f"{int(found['sizes'][index]):,}", ours, *others))
        phrase = "with {} in {:.1%}, {:.1%}, {:.1%}"
    answer = "pays off where labels are few" if wins[0] else "does not clearly pay off"
    return f"Pre-training {'pays off' if all(wins) else answer}: {'; '.join(parts)}."


def best_sentence(found: Mapping[str, Any]) -> str:
    """The best method at each size, and those within its 95% interval."""
    parts = []
    for index, size in enumerate(found["sizes"]):
        ranked = sorted(found["methods"], key=lambda method: -float(method["accuracy"][index]))
        names = [f"{method_title(m['name'])} ({m['accuracy'][index]:.1%})" for m in ranked]
        low = float(ranked[0]["intervals"][index][0])
        level = [n for n, m in zip(names, ranked, strict=True) if m["accuracy"][index] >= low][1:]
        doubt = f", not clearly ahead of {' and '.join(level)}" if level else ""
        parts.append(f"with {int(size):,}, {names[0]}{doubt}")
    return f"Best {'; '.join(parts)}."


def _seed_charts(results: Results, records: Sequence[Record], prefix: str) -> Iterator[Markup]:
    main = str(results.get("main", ""))
    dev = [record for record in records if record.get("split") == "dev"]
    train = [record for record in records if record.get("split") == "train"]
    degenerate = {each.get("seed") for each in results.get("seeds") or [] if each.get("degenerate")}
    others = baselines(results, main).items()
    best_other = max(others, key=lambda item: direction(main) * item[1], default=None)
    levels = []
    if best_other:  # one level: a second far below would flatten the seeds
        levels = [Series(baseline_title(best_other[0]), [], [best_other[1]], "baseline")]
    x_key = "epoch" if dev and all(number(r.get("epoch")) is not None for r in dev) else "step"
    for split, key, name, where in (
        (dev, prefix + main, f"Dev {title(main).removesuffix(' correlation')}", x_key),
        (train, prefix + "loss", "Training loss", "step"),
        (dev, prefix + "loss", "Dev loss", x_key),
    ):
        drawn = _series(_lines(split, where, key), degenerate)
        is_main = key == prefix + main
        if drawn and is_main:
            drawn = [*levels, *drawn]
        ys = {y for each in drawn for y in each.ys}
        percent = is_main and is_fraction(main) and max(ys, default=0) <= 1
        # lines all at one height have no range of their own
        yield chart(name, drawn, f"{where}s", percent, from_zero=len(ys) == 1)
    best = results.get("best_seed")
    rate = _lines([r for r in train if r.get("seed") in (best, None)], "step", "learning_rate")
    if rate:
        line = Series("learning rate", *next(iter(rate.values())), legend="")
        yield chart("Learning rate", [line], "steps", from_zero=True)


def _lines(records: Sequence[Record], x_key: str, key: str) -> dict[object, Line]:
    """One key by seed, in the order of x."""
    found: dict[object, list[tuple[float, float]]] = {}
    for record in records:
        x, y = number(record.get(x_key)), number(record.get(key))
        if x is not None and y is not None:
            found.setdefault(record.get("seed"), []).append((x, y))
    return {
        seed: ([x for x, _ in sorted(points)], [y for _, y in sorted(points)])
        for seed, points in found.items()
    }


def _series(lines: Mapping[object, Line], degenerate: set[object]) -> list[Series]:
    """Thin lines and their mean; a single seed is drawn as a whole line."""
    drawn = []
    for seed, line in lines.items():
        style = "degenerate" if seed in degenerate else "seed"
        name = f"seed {seed}, degenerate" if seed in degenerate else f"seed {seed}"
        if len(lines) == 1:
            return [Series(name, *line, _style(line))]
        drawn.append(Series(name, *line, style, style))
    mean = mean_line(list(lines.values()))
    return [*drawn, Series("mean", *mean, _style(mean))] if drawn else []


def _style(line: Line) -> str:
    """Few points are measurements worth a mark, many are a curve."""
    return "dev" if len(line[0]) <= MOST_MARKS else "mean"


def _at(line: Line, x: float) -> float:
    """The height of a line at x, which is between its ends."""
    xs, ys = line
    right = bisect_left(xs, x)
    if xs[right] == x:
        return ys[right]
    part = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + part * (ys[right] - ys[right - 1])


def _points(records: Iterable[Record], x_key: str, key: str, x_unit: float) -> Line:
    """One key over another, where both are numbers."""
    pairs = [(number(r.get(x_key)), number(r.get(key))) for r in records]
    kept = [(x / x_unit, y) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in kept], [y for _, y in kept]


def _unit_of_time(seconds: float) -> tuple[str, float]:
    """The unit of a time axis with round numbers, and its seconds."""
    for name, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return name, size
    return "seconds", 1.0


def _capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]
