"""Present the results of `bertwright compare`: rows of a table, a conclusion, and the page.

A conclusion says that one result is clearly ahead of another only if their 95 % intervals do not
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bertwright.progress import clock
from bertwright.report.ladder_plot import Dot, Level, ladder_plot
from bertwright.report.ladder_plot import Row as PlotRow
from bertwright.report.numbers import count, is_fraction, show, title
from bertwright.report.pages import render, write_page
from bertwright.report.plots import Series, chart
from bertwright.report.rows import WAYS, Mean, Results, Row, read_results

BITS = "bits_per_character"
COLUMNS: Mapping[str, str] = {
    BITS: "bits a character",
    "spelling_fraction": "of it spelling",
    f"pseudo_{BITS}": "pseudo-bits",
    "minimal_pairs": "minimal pairs",
}
"""The columns of metrics without labels whose names are not their titles."""
HIDDEN = ("unknown_fraction",)
"""The metrics without labels that are no columns."""
MOST_CURVES = 4
"""The maximum number of lines in the chart by number of labels. The best ones are drawn; the tables
have all rungs.
"""
_STYLES = ("tuned", "frozen", "random", "dev")


def conclusion(results: Results) -> str:
    """Return a conclusion from the results in a few sentences; empty if there are no results."""
    found = [
        (system["title"], way, mean)
        for system in results.systems
        for way in ("frozen", "tuned")
        if (mean := _of_task(results, system["name"], way))
    ]
    if not found:
        return _text_conclusion(results)
    found.sort(key=lambda each: -each[2].value)
    (name, way, best), metric = found[0], results.facts["task"]["metric"]
    others = [each for each in found[1:] if each[0] != name]
    level = [each for each in others if not best.is_ahead_of(each[2])]
    said = f"{name}, {WAYS[way]}, is best with {title(metric)} {shown(metric, best)}"
    if level:
        names = [f"{n}, {WAYS[w]} ({show(metric, mean.value)})" for n, w, mean in level[:3]]
        more = f" and {len(level) - 3} more" if len(level) > 3 else ""
        said += f", not clearly ahead of {', '.join(names)}{more}"
    elif others:
        said += ", clearly ahead of every other system"
    beside = f"{_beside_baselines(results, best)}{_beside_random(results, best)}"
    left = [system["title"] for system in results.systems if _is_to_come(results, system)]
    to_come = f" Not measured yet: {', '.join(left)}." if left else ""
    return f"{said}.{beside}{to_come}{_too_short(results)}"


def _of_task(results: Results, system: str, way: str, fraction: float | None = None) -> Mean | None:
    """Return a result of the task, by default with the most labels; None also without a task."""
    return results.of_task(system, way, fraction) if results.facts["task"] else None


def _too_short(results: Results) -> str:
    """Return a sentence with the systems that were fine-tuned for less than one epoch.

    The result is empty if there are none.
    """
    tuned = {s["title"]: results.of_task(s["name"], "tuned") for s in results.systems}
    few = [name for name, own in tuned.items() if own and (own.first.epochs or 0) < 1]
    if not few:
        return ""
    return (
        f" The time was too short to fine-tune {', '.join(few)} on all labels once: "
        "--task-minutes gives more."
    )


def has_failed(results: Results, system: str) -> bool:
    """Return whether a step of a system failed."""
    return bool(results.find(system=system, failed=True))


def _is_to_come(results: Results, system: Mapping[str, Any]) -> bool:
    """Return whether a system can do the task, has no result of it yet, and has not failed."""
    name = system["name"]
    own = results.find(measure="task", system=name, fraction=results.fractions[-1])
    return system["fits_tasks"] and not own and not has_failed(results, name)


def _beside_baselines(results: Results, best: Mean) -> str:
    metric = results.facts["task"]["metric"]
    own = results.baselines()
    if not own:
        return ""
    simple = max(own.values(), key=lambda mean: mean.value)
    what = f"{simple.first.title}, {shown(metric, simple)}"
    if best.is_ahead_of(simple):
        return f" It is clearly ahead of {what}."
    if simple.is_ahead_of(best):
        return f" {what}, is clearly ahead of all of them."
    if simple.value > best.value:
        return f" {what}, is above it, but not clearly."
    if simple.value == best.value:
        return f" It is no better than {what}."
    return f" It is not clearly ahead of {what}."


def _beside_random(results: Results, best: Mean) -> str:
    """Return a sentence that compares the best system with the same network from random weights.

    The result is empty if the network was not fine-tuned from random weights.
    """
    metric = results.facts["task"]["metric"]
    random = results.of_task(best.first.system, "random")
    if random is None:
        return ""
    clear = "clearly " if best.is_ahead_of(random) else "not clearly "
    return (
        f" The same network from random weights reaches {shown(metric, random)}: "
        f"pre-training is {clear}worth it here."
    )


def _text_conclusion(results: Results) -> str:
    bits = {s["title"]: results.mean(system=s["name"], metric=BITS) for s in results.systems}
    found = sorted((mean.value, name) for name, mean in bits.items() if mean is not None)
    if not found:
        return ""
    (value, name), *rest = found
    said = f"{name} predicts the held-out text best, with {value:.3f} bits a character"
    if rest:
        said += f"; next is {rest[0][1]} with {rest[0][0]:.3f}"
    return f"{said}. There is one held-out text and no interval."


def shown(metric: str, mean: Mean, with_sd: bool = False) -> str:
    """Return a result with its interval, as `82.5% (80.1 to 84.9)`."""
    value = show(metric, mean.value)
    if mean.low is not None and mean.high is not None:
        low, high = (show(metric, end).removesuffix("%") for end in (mean.low, mean.high))
        value = f"{value} ({low} to {high})"
    if with_sd and mean.sd is not None:
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


def task_table(
    results: Results, fraction: float | None = None, is_short: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the task's results; by default those with the most labels.

    Systems come first, then baselines. If `is_short`, names and results are short, for a terminal.
    The last column has the seconds of use, if the table is that with the most labels.
    """
    task = results.facts["task"]
    metric, ways = task["metric"], [*task["ways"], "baseline"]
    columns = ["", *(way if is_short else WAYS[way] for way in ways)]
    names = {system["name"]: system["title"] for system in results.systems}
    names |= {name: mean.first.title for name, mean in results.baselines(fraction).items()}
    rows = []
    for name, shown_as in names.items():
        cells = []
        for way in ways:
            mean = results.of_task(name, way, fraction)
            cell = "" if mean is None else shown(metric, mean, with_sd=True)
            cells.append(_short(metric, mean) if is_short and mean is not None else cell)
        short = shown_as.replace(" + logistic regression", "")
        rows.append([short if is_short else shown_as, *cells])
        if fraction is None and not is_short:
            seconds = seconds_of_use(results, name)
            rows[-1].append("" if seconds is None else f"{seconds:,.0f}")
    if fraction is None and not is_short:
        columns.append("seconds")
    return columns, rows


def seconds_of_use(results: Results, system: str) -> float | None:
    """Return the seconds of all fits of a system and of their evaluation, without those from random
    weights, as means over the seeds; None without fits.
    """
    found = [
        (mean.mean("seconds") or 0.0) + (mean.mean("seconds_of_evaluation") or 0.0)
        for fraction in results.fractions
        for way in ("frozen", "tuned")
        if (mean := results.of_task(system, way, fraction))
    ]
    return sum(found) if found else None


def text_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the results without labels.

    Columns without a result are left out.
    """
    names = [system["name"] for system in results.systems]
    trained = [_pretrained(results, system) for system in results.systems]
    made: dict[str, list[str]] = {
        "parameters": [_counted(own and own.mean("parameters")) for own in trained],
        "tokens read": [_counted(own and own.mean("tokens")) for own in trained],
        "tokens a second": [_counted(own and _per_second(own)) for own in trained],
        "training": [clock(own.mean("seconds") or 0.0) if own else "" for own in trained],
    }
    measured = [row for row in results.rows if row.measure not in ("pretrain", "task")]
    tests = dict.fromkeys((row.test, row.metric) for row in measured if row.value is not None)
    order = [*COLUMNS, *(metric for _, metric in tests)]
    for test, metric in sorted(tests, key=lambda each: order.index(each[1])):
        if metric not in HIDDEN:
            means = [results.mean(system=name, test=test, metric=metric) for name in names]
            cells = ["" if mean is None else show(metric, mean.value) for mean in means]
            made[test or COLUMNS.get(metric, title(metric))] = cells
    kept = {name: cells for name, cells in made.items() if any(cells)}
    rows = [
        [system["title"], *(cells[index] for cells in kept.values())]
        for index, system in enumerate(results.systems)
    ]
    return ["", *kept], rows


def _pretrained(results: Results, system: Mapping[str, Any]) -> Mean | None:
    """Return the rows of a system's pre-training; None: it is not done.

    A system that uses the run of another one has the rows of that.
    """
    rows = results.find(measure="pretrain", system=system["run_of"], failed=False)
    return Mean(rows) if rows else None


def _per_second(own: Mean) -> float:
    return sum((row.tokens or 0) / max(row.seconds or 0, 1e-9) for row in own.rows) / len(own.rows)


def _counted(value: object) -> str:
    return "" if value is None else count(value)


def picture(results: Results) -> Markup:
    """Return the chart of the results of every system, with their intervals, and of the baselines.

    Without results of a task, it shows the bits per character of held-out text.
    """
    task = results.facts["task"]
    if not results.find(measure="task", failed=False):
        bits = [(s["title"], results.mean(system=s["name"], metric=BITS)) for s in results.systems]
        drawn = [
            PlotRow(name, [Dot("bits a character", "tuned", mean.value)])
            for name, mean in bits
            if mean is not None
        ]
        return ladder_plot(
            "Bits a character of text/held-out.txt (lower is better)", drawn, [], False
        )
    rows = []
    for system in results.systems:
        name = system["name"]
        dots = [
            Dot(WAYS[way], way, mean.value, mean.low, mean.high)
            for way in task["ways"]
            if (mean := results.of_task(name, way)) is not None
        ]
        note = ""
        if not dots:
            note = "no vectors: measured on text alone"
            if has_failed(results, name):
                note = "failed"
            elif system["fits_tasks"]:
                note = "not measured yet"
        rows.append(PlotRow(system["title"], dots, note))
    levels = [
        Level(mean.first.title, "words" if name != "majority" else "baseline", mean.value)
        for name, mean in results.baselines().items()
    ]
    heading = f"{_metric(task)} on {task['evaluated_on']}, with 95% intervals"
    return ladder_plot(heading, rows, levels, is_fraction(task["metric"]))


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
    lines: list[tuple[str, list[float], list[float]]] = []

    def draw(name: str, way: str, shown_as: str) -> None:
        found = {n: results.of_task(name, way, fraction) for fraction, n in labels.items()}
        points = {n: mean.value for n, mean in found.items() if mean is not None}
        if points:
            lines.append((shown_as, list(points), list(points.values())))

    for system in results.systems:
        for way in ("frozen", "tuned"):
            draw(system["name"], way, f"{system['title']}, {WAYS[way]}")
    best = sorted(lines, key=lambda line: -line[2][-1])[:MOST_CURVES]
    series = [Series(*line, style) for line, style in zip(best, _STYLES, strict=False)]
    lines.clear()
    for name, mean in results.baselines().items():
        if name not in ("majority", "mean"):
            draw(name, "baseline", mean.first.title)
    series += [Series(*line, "words") for line in lines]
    metric = task["metric"]
    return chart(title(metric), series, "labelled examples", is_fraction(metric))


def write_ladder(folder: Path, out: Path | None = None) -> Path:
    """Write the page of the comparison in a folder, and return its path.

    The default of `out` is `report.html` in the folder.

    Raises:
        DataError: there are no results yet, or they are damaged.
        ConfigError: `out` cannot be the name of a file.
    """
    results = read_results(folder)
    out = out or folder / "report.html"
    write_page(out, ladder_page(results, folder))
    return out


def ladder_page(results: Results, folder: Path) -> str:
    """Return the page of a comparison; `folder` is the folder of its runs."""
    facts, task = results.facts, results.facts["task"]
    return render(
        "ladder.html.j2",
        name=folder.resolve().name,
        heading=f"{folder.resolve().name}: systems compared",
        results=facts,
        subtitle=list(_subtitle(facts)),
        conclusion=facts["conclusion"],
        picture=picture(results),
        curve=label_curve(results),
        metric=_metric(task) if task else "",
        task_table=task_table(results) if task else None,
        by_fraction=list(by_fraction(results)),
        fit_minutes=_fit_minutes(results),
        text_table=text_table(results),
        left_out=list(_left_out(facts["left_out"])),
        systems=[_system(results, system) for system in results.systems],
        settings={k: v for k, v in facts["settings"].items() if v not in (None, (), [], "")},
    )


def _subtitle(facts: Mapping[str, Any]) -> Iterator[str]:
    text, task, settings = facts["text"], facts["task"], facts["settings"]
    if text:
        yield f"{count(text['train']['characters'])} characters of text"
    if settings["tokens"] is None:
        yield f"{settings['minutes']:g} min of pre-training each"
    else:
        yield f"{settings['tokens']:,} tokens of pre-training each"
    if task:
        yield f"{task['kind']}, {task['examples']['train']:,} labelled examples"
    yield f"{facts['environment']['cores']} cores"


def by_fraction(results: Results) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield a heading, the columns and the rows of the task's results for each smaller number of
    labels.
    """
    task = results.facts["task"]
    for fraction in results.fractions[:-1] if task else []:
        examples = round(fraction * task["examples"]["train"])
        yield f"{examples:,} labelled examples", *task_table(results, fraction)


def _fit_minutes(results: Results) -> dict[float, list[str]]:
    """Return the systems by the maximum minutes of their fits, the most usual minutes first."""
    found: dict[float, list[str]] = {}
    for system in results.systems:
        for row in results.find(measure="task", system=system["name"]):
            if row.minutes is not None and system["title"] not in found.get(row.minutes, []):
                found.setdefault(row.minutes, []).append(system["title"])
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _left_out(reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the systems that are left out, grouped by reason, with their reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    for reason, own in names.items():
        yield ", ".join(own), reason


def _system(results: Results, system: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a system, with the links and the fits that the page shows."""
    trained = _pretrained(results, system)
    links = []
    if trained and trained.first.page:
        links.append(("its pre-training", f"{system['run']}/report.html"))
    fits = []
    for fraction in results.fractions:
        for way in WAYS:
            if own := _of_task(results, system["name"], way, fraction):
                page = f"{own.first.run}/report.html" if own.first.page else ""
                fits.append((_fit(own.first), page))
    failures = results.find(system=system["name"], failed=True)
    return {
        **system,
        "trained": trained,
        "links": links,
        "fits": fits,
        "reasons": list(dict.fromkeys(row.reason for row in failures)),
    }


def _fit(row: Row) -> str:
    """Return a line about a fit: its examples, its epochs, its learning rate and its time."""
    labels = f"{row.examples:,} examples"
    if row.examples != row.of_examples:
        labels = f"{row.examples:,} of {row.of_examples:,} examples"
    said = f"{WAYS[row.way]}: {labels}"
    if row.rate is not None:  # else a linear layer that was fitted without steps
        said += f", {row.epochs:.3g} epochs at {row.rate:g}"
    return said + "; one prediction for all" * bool(row.degenerate)
