"""Write the page of a comparison: its conclusion, its charts, its tables, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bertwright.report.comparison.conclusion import BITS, has_failed, is_to_come
from bertwright.report.comparison.plot import Dot, Level, comparison_plot
from bertwright.report.comparison.plot import Row as PlotRow
from bertwright.report.comparison.rows import WAYS, Results, Row, read_results
from bertwright.report.comparison.tables import by_fraction, pretrained, task_table, text_table
from bertwright.report.numbers import is_fraction, title
from bertwright.report.pages import render, write_page
from bertwright.report.plots import Series, chart
from bertwright.report.sentences import sentence

MOST_CURVES = 4
"""The maximum number of lines in the chart by number of labels. The best ones are drawn; the tables
have all systems.
"""
_STYLES = ("tuned", "frozen", "random", "dev")


def write_comparison(folder: Path, out: Path | None = None) -> Path:
    """Write the page of the comparison in a folder, and return its path.

    The default of `out` is `report.html` in the folder.

    Raises:
        DataError: there are no results yet, or they are damaged.
        ConfigError: `out` cannot be the name of a file.
    """
    results = read_results(folder)
    out = out or folder / "report.html"
    write_page(out, comparison_page(results, folder))
    return out


def comparison_page(results: Results, folder: Path) -> str:
    """Return the page of a comparison; `folder` is the folder of its runs."""
    facts, task = results.facts, results.facts["task"]
    return render(
        "comparison.html.j2",
        name=folder.resolve().name,
        heading=f"{folder.resolve().name}: systems compared",
        results=facts,
        picture=picture(results),
        curve=label_curve(results),
        metric=_metric(task) if task else "",
        task_table=task_table(results) if task else None,
        by_fraction=list(by_fraction(results)),
        text_table=text_table(results),
        examples=_examples(results),
        remarks=facts["remarks"],
        fit_minutes=_fit_minutes(results),
        left_out=_left_out(facts["left_out"]),
        systems=[_system(results, system) for system in results.systems],
        ways=WAYS,
        settings={k: v for k, v in facts["settings"].items() if v not in (None, (), [], "")},
    )


def picture(results: Results) -> Markup:
    """Return the chart of the results of every system, with their intervals, and of the baselines.

    Fits that predict one class for all examples are hatched. Without results of a task, the chart
    shows the bits per character of held-out text.
    """
    task = results.facts["task"]
    if not results.find(measure="task", failed=False):
        bits = [(s["title"], results.mean(system=s["name"], metric=BITS)) for s in results.systems]
        drawn = [
            PlotRow(name, [Dot("bits a character", "tuned", mean.value)])
            for name, mean in bits
            if mean is not None
        ]
        return comparison_plot(
            "Bits a character of text/held-out.txt (lower is better)", drawn, [], False
        )
    rows = []
    for system in results.systems:
        dots = [dot for way in task["ways"] for dot in _dots(results, system["name"], way)]
        note = ""
        if not dots:
            note = "no vectors: measured on text alone"
            if has_failed(results, system["name"]):
                note = "failed"
            elif is_to_come(results, system):
                note = "not measured yet"
        rows.append(PlotRow(system["title"], dots, note))
    levels = [
        Level(mean.first.title, "words" if name != "majority" else "baseline", mean.value)
        for name, mean in results.baselines().items()
    ]
    heading = f"{_metric(task)} on {task['evaluated_on']}, with 95% intervals"
    doubts = dict.fromkeys(dot.doubt for row in rows for dot in row.dots if dot.doubt)
    heading += "".join(f"; hatched: {doubt}" for doubt in doubts)
    return comparison_plot(heading, rows, levels, is_fraction(task["metric"]))


def _dots(results: Results, system: str, way: str) -> list[Dot]:
    """Return the mark of a system's result in one way; empty if it is not fitted."""
    mean = results.of_task(system, way)
    if mean is not None:
        return [Dot(WAYS[way], way, mean.value, mean.low, mean.high)]
    doubt = sentence("words", "one_class", kind=results.facts["task"]["kind"])
    fallen = results.of_one_class(system, way)
    return [Dot(WAYS[way], way, fallen[0].value or 0.0, doubt=doubt)] if fallen else []


def _metric(task: Mapping[str, Any]) -> str:
    """Return the title of the metric that is compared, with a capital letter."""
    name = title(task["metric"])
    return f"{name[:1].upper()}{name[1:]}"


def label_curve(results: Results) -> Markup:
    """Return the chart of results by the number of labels; empty if there is only one number.

    It has the `MOST_CURVES` best lines of systems and ways, and the baselines other than the
    constant ones.
    """
    task = results.facts["task"]
    if not task or len(results.fractions) < 2:
        return Markup("")
    labels = {each: each * task["examples"]["train"] for each in results.fractions}

    def line(name: str, way: str) -> tuple[list[float], list[float]]:
        found = {n: results.of_task(name, way, fraction) for fraction, n in labels.items()}
        points = {n: mean.value for n, mean in found.items() if mean is not None}
        return list(points), list(points.values())

    lines = [
        (f"{system['title']}, {WAYS[way]}", *line(system["name"], way))
        for system in results.systems
        for way in ("frozen", "tuned")
    ]
    best = sorted((each for each in lines if each[2]), key=lambda each: -each[2][-1])
    series = [Series(*line, style) for line, style in zip(best, _STYLES, strict=False)]
    series += [
        Series(mean.first.title, *line(name, "baseline"), "words")
        for name, mean in results.baselines().items()
        if name not in ("majority", "mean")
    ]
    metric = task["metric"]
    return chart(title(metric), series, "labelled examples", is_fraction(metric))


def _examples(results: Results) -> dict[str, Any]:
    """Return what the systems make of the same text and words: the texts, and by kind of example
    the title of each system and its own.
    """
    found = [(system["title"], system["examples"]) for system in results.systems]
    found = [(name, own) for name, own in found if own]
    if not found:
        return {}
    kinds = ("continuations", "fills", "surprisal", "neighbours")
    by_kind = {kind: {name: own[kind] for name, own in found if own.get(kind)} for kind in kinds}
    bits = [bit for own in by_kind["surprisal"].values() for bit in own["bits"]]
    words = dict.fromkeys(word for own in by_kind["neighbours"].values() for word in own)
    return {
        "prompts": found[0][1]["prompts"],
        "words": list(words),
        "most_bits": max(bits, default=1.0),
        "masked": [name for name, own in found if own.get("pseudo")],
        **by_kind,
    }


def _fit_minutes(results: Results) -> dict[float, list[str]]:
    """Return the systems by the maximum minutes of their fits, the most usual minutes first."""
    found: dict[float, list[str]] = {}
    for system in results.systems:
        for row in results.find(measure="task", system=system["name"]):
            if row.minutes is not None and system["title"] not in found.get(row.minutes, []):
                found.setdefault(row.minutes, []).append(system["title"])
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _left_out(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the systems that are left out by the reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return names


def _system(results: Results, system: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a system, its pre-training, its fits, and the reasons of failures."""
    trained = pretrained(results, system)
    fits: list[Row] = []
    for fraction in results.fractions:
        for way in WAYS:
            own = results.find(
                measure="task", system=system["name"], way=way, fraction=fraction, failed=False
            )
            fits += own[:1]
    failures = results.find(system=system["name"], failed=True)
    return {
        **system,
        "trained": trained,
        "page_of_run": bool(trained and trained.first.page),
        "fits": fits,
        "reasons": list(dict.fromkeys(row.reason for row in failures)),
    }
