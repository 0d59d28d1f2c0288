"""The tables of a comparison, for its page and for the terminal.

A table is its columns and its rows of cells, as they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bertwright.progress import clock
from bertwright.report.comparison.conclusion import BITS
from bertwright.report.comparison.rows import WAYS, Mean, Results
from bertwright.report.numbers import count, is_fraction, show, title
from bertwright.report.sentences import sentence

Table = tuple[list[str], list[list[str]]]
COLUMNS: Mapping[str, str] = {
    BITS: "bits a character",
    "spelling_fraction": "of it spelling",
    f"pseudo_{BITS}": "pseudo-bits",
    "minimal_pairs": "minimal pairs",
}
"""The columns of metrics without labels whose names are not their titles."""
HIDDEN = ("unknown_fraction",)
"""The metrics without labels that are no columns."""


def task_table(results: Results, fraction: float | None = None, is_short: bool = False) -> Table:
    """Return the results of the task; by default those with the most labels.

    Systems come first, then baselines. If `is_short`, names and results are short, for a terminal.
    The last column has the seconds of use, if the table is that with the most labels.
    """
    task = results.facts["task"]
    ways = [*task["ways"], "baseline"]
    names = {system["name"]: system["title"] for system in results.systems}
    names |= {name: mean.first.title for name, mean in results.baselines(fraction).items()}
    columns = ["", *(way if is_short else WAYS[way] for way in ways)]
    rows = []
    for name, shown_as in names.items():
        short = shown_as.replace(" + logistic regression", "")
        cells = [_cell(results, name, way, fraction, is_short) for way in ways]
        rows.append([short if is_short else shown_as, *cells])
        if fraction is None and not is_short:
            seconds = seconds_of_use(results, name)
            rows[-1].append("" if seconds is None else f"{seconds:,.0f}")
    if fraction is None and not is_short:
        columns.append("seconds")
    return columns, rows


def _cell(results: Results, name: str, way: str, fraction: float | None, is_short: bool) -> str:
    """Return a result with its interval, or that the fit predicts one class for all examples."""
    task = results.facts["task"]
    mean = results.of_task(name, way, fraction)
    if mean is not None:
        return _short(task["metric"], mean) if is_short else shown(task["metric"], mean)
    fallen = results.of_one_class(name, way, fraction)
    return sentence("words", "one_class", kind=task["kind"]) if fallen else ""


def shown(metric: str, mean: Mean) -> str:
    """Return a result with its interval and its standard deviation over the seeds."""
    value = sentence("words", "with_interval", metric=metric, mean=mean)
    if mean.sd is not None:
        value += f", sd {100 * mean.sd if is_fraction(metric) else mean.sd:.2g}"
    return value


def _short(metric: str, mean: Mean) -> str:
    """Return a result with its interval for a terminal, as `82.5% (80-85)`."""
    value = show(metric, mean.value)
    if mean.low is None or mean.high is None:
        return value
    scale, form = (100, "{:.0f}") if is_fraction(metric) else (1, "{:.2f}")
    low, high = (form.format(scale * end) for end in (mean.low, mean.high))
    return f"{value} ({low}-{high})"


def by_fraction(results: Results) -> Iterator[tuple[str, Table]]:
    """Yield a heading and the table of the task for each smaller number of labels."""
    task = results.facts["task"]
    for fraction in results.fractions[:-1] if task else []:
        examples = round(fraction * task["examples"]["train"])
        yield f"{examples:,} labelled examples", task_table(results, fraction)


def seconds_of_use(results: Results, system: str) -> float | None:
    """Return the seconds of all fits of a system and of their evaluation, without those from random
    weights, as means over the seeds; None without fits.
    """
    found = [
        (mean.mean("seconds") or 0.0) + (mean.mean("seconds_of_evaluation") or 0.0)
        for fraction in results.fractions
        for way in ("frozen", "tuned")
        if (mean := results.mean(measure="task", system=system, way=way, fraction=fraction))
    ]
    return sum(found) if found else None


def text_table(results: Results) -> Table:
    """Return the results without labels; columns without a result are left out."""
    names = [system["name"] for system in results.systems]
    trained = [pretrained(results, system) for system in results.systems]
    made: dict[str, list[str]] = {
        "parameters": [_counted(own and own.mean("parameters")) for own in trained],
        "tokens read": [_counted(own and own.mean("tokens")) for own in trained],
        "tokens a second": [_counted(own and _per_second(own)) for own in trained],
        "training": [clock(own.mean("seconds") or 0.0) if own else "" for own in trained],
    }
    measured = [row for row in results.rows if row.measure not in ("pretrain", "task")]
    figures = dict.fromkeys(
        (row.measure, row.test, row.metric)
        for row in measured
        if row.value is not None and row.metric not in HIDDEN
    )
    order = [*COLUMNS, *(metric for *_, metric in figures)]
    for measure, test, metric in sorted(figures, key=lambda each: order.index(each[2])):
        means = [
            results.mean(measure=measure, system=name, test=test, metric=metric) for name in names
        ]
        name = COLUMNS.get(metric, title(metric))
        column = test if test and test not in made else f"{test} {name}".strip()
        made[column] = ["" if mean is None else show(metric, mean.value) for mean in means]
    kept = {name: cells for name, cells in made.items() if any(cells)}
    rows = [
        [system["title"], *(cells[index] for cells in kept.values())]
        for index, system in enumerate(results.systems)
    ]
    return ["", *kept], rows


def pretrained(results: Results, system: Mapping[str, Any]) -> Mean | None:
    """Return the rows of a system's pre-training; None: it is not done.

    A system that uses the run of another one has the rows of that.
    """
    rows = results.find(measure="pretrain", system=system["run_of"], failed=False)
    return Mean(rows) if rows else None


def _per_second(own: Mean) -> float:
    return sum((row.tokens or 0) / max(row.seconds or 0, 1e-9) for row in own.rows) / len(own.rows)


def _counted(value: object) -> str:
    return "" if value is None else count(value)
