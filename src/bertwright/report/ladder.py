"""Present the results of `bertwright compare`: rows of a table, a conclusion, and the page.

A conclusion says that one result is clearly ahead of another only if their 95 % intervals do not
overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from bertwright.errors import DataError
from bertwright.progress import clock
from bertwright.report.ladder_plot import Dot, Level, Row, ladder_plot
from bertwright.report.numbers import baseline_title, count, is_fraction, show, title
from bertwright.report.pages import render, write_page
from bertwright.report.plots import Series, chart
from bertwright.report.read import read_object

RESULTS, LADDER = "results.json", "ladder.json"
"""The file of a comparison's results, and the file that marks its folder."""
WAYS = {
    "frozen": "frozen features",
    "tuned": "fine-tuned",
    "random": "random weights, fine-tuned",
}
"""The ways to use a rung, with their names for users. `random` is the one to beat."""
BASELINE = "baseline"
"""The column of the baselines, which are used in none of these ways."""
OWN_PAIRS = "minimal_pairs.tsv"
"""The file of our own minimal pairs."""
MOST_CURVES = 4
"""The maximum number of lines in the chart by number of labels. The best ones are drawn; the tables
have all rungs.
"""
_STYLES = ("tuned", "frozen", "random", "dev")

Results = Mapping[str, Any]
"""The content of `results.json`."""


class Entry(NamedTuple):
    """A result that is compared with others, and the ends of its interval."""

    name: str
    value: float
    low: float | None
    high: float | None

    def is_ahead_of(self, other: Entry) -> bool:
        """Return whether its whole interval is above that of the other."""
        return self.low is not None and other.high is not None and self.low > other.high


def rows_of(results: Results) -> list[dict[str, Any]]:
    """Return the results as flat rows, one for each rung or baseline and fraction of the labels."""
    task = results["task"]
    fractions = [f"{each:g}" for each in sorted(set(results["settings"]["fractions"]))]
    rows = []
    for rung in results["rungs"]:
        shared: dict[str, Any] = {"rung": rung["name"], "title": rung["title"]}
        for name in (
            *("model", "trained_on", "parameters", "tokens", "tokens_per_second", "seconds"),
            *("seconds_of_use", "bits_per_character", "pseudo_bits_per_character"),
            *("spelling_fraction", "unknown_fraction", "senses"),
        ):
            shared[name] = rung.get(name)
        shared |= {f"pairs {k}": v for k, v in rung.get("minimal_pairs", {}).items()}
        shared |= {f"words {k}": v.get("score") for k, v in rung.get("words", {}).items()}
        shared["reasons"] = "; ".join(rung["reasons"])
        for fraction in fractions if task else [None]:
            row = dict(shared)
            if task:
                row |= {"metric": task["metric"], "fraction": float(fraction or 1)}
                for way, figures in rung.get("task", {}).get(fraction, {}).items():
                    row |= {way: figures["value"], f"{way}_low": figures["low"]}
                    row |= {f"{way}_high": figures["high"], f"{way}_rate": figures["rate"]}
            rows.append(row)
    for fraction, own in (task or {}).get("baselines", {}).items():
        for name, figures in own.items():
            rows.append(
                {
                    "rung": name,
                    "title": baseline_title(name),
                    "metric": task["metric"],
                    "fraction": float(fraction),
                    "baseline": figures["value"],
                    "baseline_low": figures["low"],
                    "baseline_high": figures["high"],
                }
            )
    return rows


def entries(results: Results, ways: Sequence[str] = ("frozen", "tuned")) -> list[Entry]:
    """Return the task's results with the most labels, for every rung and each of the ways."""
    if not results["task"]:
        return []
    fraction = _most(results)
    return [
        Entry(f"{rung['title']}, {WAYS[way]}", own["value"], own["low"], own["high"])
        for rung in results["rungs"]
        for way, own in rung.get("task", {}).get(fraction, {}).items()
        if way in ways
    ]


def _most(results: Results) -> str:
    """Return the largest fraction of the labels, as a key of the results."""
    return f"{max(results['settings']['fractions']):g}"


def conclusion(results: Results) -> str:
    """Return a conclusion from the results in a few sentences; empty if there are no results."""
    found = sorted(entries(results), key=lambda entry: -entry.value)
    if not found:
        return _text_conclusion(results)
    best, metric = found[0], results["task"]["metric"]
    others = [entry for entry in found[1:] if entry.name.split(",")[0] != best.name.split(",")[0]]
    level = [entry for entry in others if not best.is_ahead_of(entry)]
    said = f"{best.name}, is best with {title(metric)} {_shown(metric, best)}"
    if level:
        names = [f"{entry.name} ({show(metric, entry.value)})" for entry in level[:3]]
        more = f" and {len(level) - 3} more" if len(level) > 3 else ""
        said += f", not clearly ahead of {', '.join(names)}{more}"
    elif others:
        said += ", clearly ahead of every other system"
    beside = f"{_beside_baselines(results, best)}{_beside_random(results, best)}"
    left = [rung["title"] for rung in results["rungs"] if _is_to_come(rung, _most(results))]
    to_come = f" Not measured yet: {', '.join(left)}." if left else ""
    return f"{said}.{beside}{to_come}{_too_short(results)}"


def _too_short(results: Results) -> str:
    """Return a sentence with the systems that were fine-tuned for less than one epoch.

    The result is empty if there are none.
    """
    fits = {r["title"]: r.get("task", {}).get(_most(results), {}) for r in results["rungs"]}
    few = [name for name, own in fits.items() if "tuned" in own and own["tuned"]["epochs"] < 1]
    if not few:
        return ""
    return (
        f" The time was too short to fine-tune {', '.join(few)} on all labels once: "
        "--task-minutes gives more."
    )


def _is_to_come(rung: Mapping[str, Any], fraction: str) -> bool:
    """Return whether a rung can do the task, has no result of it yet, and has not failed."""
    return not rung["failed"] and "task" in rung and not rung["task"].get(fraction)


def _beside_baselines(results: Results, best: Entry) -> str:
    metric = results["task"]["metric"]
    own = results["task"]["baselines"].get(_most(results), {})
    if not own:
        return ""
    name, figures = max(own.items(), key=lambda item: item[1]["value"])
    simple = Entry(baseline_title(name), figures["value"], figures["low"], figures["high"])
    shown = f"{simple.name}, {_shown(metric, simple)}"
    if best.is_ahead_of(simple):
        return f" It is clearly ahead of {shown}."
    if simple.is_ahead_of(best):
        return f" {shown}, is clearly ahead of all of them."
    if simple.value > best.value:
        return f" {shown}, is above it, but not clearly."
    if simple.value == best.value:
        return f" It is no better than {shown}."
    return f" It is not clearly ahead of {shown}."


def _beside_random(results: Results, best: Entry) -> str:
    """Return a sentence that compares the best rung with the same network from random weights.

    The result is empty if the network was not fine-tuned from random weights.
    """
    metric = results["task"]["metric"]
    for rung in results["rungs"]:
        random = rung.get("task", {}).get(_most(results), {}).get("random")
        if random and best.name.startswith(f"{rung['title']}, "):
            other = Entry("", random["value"], random["low"], random["high"])
            clear = "clearly " if best.is_ahead_of(other) else "not clearly "
            return (
                f" The same network from random weights reaches {_shown(metric, other)}: "
                f"pre-training is {clear}worth it here."
            )
    return ""


def _text_conclusion(results: Results) -> str:
    bits = {r["title"]: r["bits_per_character"] for r in results["rungs"] if _bits(r) is not None}
    if not bits:
        return ""
    first, *rest = sorted(bits.items(), key=lambda item: item[1])
    said = f"{first[0]} predicts the held-out text best, with {first[1]:.3f} bits a character"
    if rest:
        said += f"; next is {rest[0][0]} with {rest[0][1]:.3f}"
    return f"{said}. There is one held-out text and no interval."


def _bits(rung: Mapping[str, Any]) -> float | None:
    return rung.get("bits_per_character")


def _shown(metric: str, entry: Entry) -> str:
    value = show(metric, entry.value)
    if entry.low is None or entry.high is None:
        return value
    low, high = (show(metric, end).removesuffix("%") for end in (entry.low, entry.high))
    return f"{value} ({low} to {high})"


def task_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the task's results with the most labels."""
    task = results["task"]
    metric, fraction = task["metric"], _most(results)
    columns = ["", *(WAYS[way] for way in task["ways"]), BASELINE, "seconds"]
    rows = []
    for rung in results["rungs"]:
        own = rung.get("task", {}).get(fraction, {})
        cells = [_cell(metric, own.get(way)) for way in task["ways"]]
        use = rung.get("seconds_of_use")
        rows.append([rung["title"], *cells, "", "" if use is None else f"{use:,.0f}"])
    no_way = [""] * len(task["ways"])
    for name, figures in task["baselines"].get(fraction, {}).items():
        rows.append([baseline_title(name), *no_way, _cell(metric, figures), ""])
    return columns, rows


def short_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of `task_table` in a short form for a terminal.

    Names are short, and intervals are written as `82.5% (70-95)`.
    """
    task, fraction = results["task"], _most(results)
    metric = task["metric"]

    def cell(figures: Mapping[str, Any] | None) -> str:
        if figures is None:
            return ""
        value, ends = show(metric, figures["value"]), (figures["low"], figures["high"])
        if None in ends:
            return value
        form = "{:.0f}" if is_fraction(metric) else "{:.2f}"
        low, high = (form.format(100 * end if is_fraction(metric) else end) for end in ends)
        return f"{value} ({low}-{high})"

    rows = []
    for rung in results["rungs"]:
        own = rung.get("task", {}).get(fraction, {})
        rows.append([rung["title"], *(cell(own.get(way)) for way in task["ways"]), ""])
    for name, figures in task["baselines"].get(fraction, {}).items():
        shown = baseline_title(name).replace(" + logistic regression", "")
        rows.append([shown, *[""] * len(task["ways"]), cell(figures)])
    return ["", *task["ways"], BASELINE], rows


def _cell(metric: str, figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    entry = Entry("", figures["value"], figures["low"], figures["high"])
    sd = figures.get("sd")
    of_seeds = "" if sd is None else f", sd {100 * sd if is_fraction(metric) else sd:.2g}"
    return _shown(metric, entry) + of_seeds


def text_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the results without labels.

    Columns without a result are left out.
    """
    rungs = results["rungs"]
    pairs = list(dict.fromkeys(name for rung in rungs for name in rung.get("minimal_pairs", {})))
    words = list(dict.fromkeys(name for rung in rungs for name in rung.get("words", {})))
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "parameters": lambda rung: _counted(rung.get("parameters")),
        "tokens read": lambda rung: _counted(rung.get("tokens")),
        "tokens a second": lambda rung: _counted(rung.get("tokens_per_second")),
        "training": lambda rung: clock(rung["seconds"]) if "seconds" in rung else "",
        "bits a character": lambda rung: _number(rung.get("bits_per_character"), "{:.3f}"),
        "of it spelling": lambda rung: _number(rung.get("spelling_fraction"), "{:.1%}"),
        "pseudo-bits": lambda rung: _number(rung.get("pseudo_bits_per_character"), "{:.3f}"),
        "senses": lambda rung: _number(rung.get("senses"), "{:.1%}"),
    }
    made = {name: [cell(rung) for rung in rungs] for name, cell in columns.items()}
    for name in pairs:
        found = [rung.get("minimal_pairs", {}).get(name) for rung in rungs]
        shown = "minimal pairs" if name == OWN_PAIRS else name
        made[shown] = [_number(each, "{:.1%}") for each in found]
    for name in words:
        found = [rung.get("words", {}).get(name, {}).get("score") for rung in rungs]
        made[name] = [_number(each, "{:.3f}") for each in found]
    kept = {name: cells for name, cells in made.items() if any(cells)}
    rows = [
        [rung["title"], *(cells[index] for cells in kept.values())]
        for index, rung in enumerate(rungs)
    ]
    return ["", *kept], rows


def _counted(value: object) -> str:
    return "" if value is None else count(value)


def _number(value: object, form: str) -> str:
    return "" if value is None else form.format(value)


def picture(results: Results) -> Markup:
    """Return the chart of the results of every rung, with their intervals, and of the baselines.

    Without results of a task, it shows the bits per character of held-out text.
    """
    if not entries(results):
        drawn = [
            Row(r["title"], [Dot("bits a character", "tuned", r["bits_per_character"])])
            for r in results["rungs"]
            if _bits(r) is not None
        ]
        return ladder_plot(
            "Bits a character of text/held-out.txt (lower is better)", drawn, [], False
        )
    task, fraction = results["task"], _most(results)
    rows = []
    for rung in results["rungs"]:
        own = rung.get("task", {}).get(fraction, {})
        dots = [
            Dot(WAYS[way], way, each["value"], each["low"], each["high"])
            for way, each in own.items()
        ]
        note = ""
        if not dots:
            note = "no vectors: measured on text alone"
            if rung["failed"] or "task" in rung:
                note = "failed" if rung["failed"] else "not measured yet"
        rows.append(Row(rung["title"], dots, note))
    levels = [
        Level(baseline_title(name), "words" if name != "majority" else "baseline", each["value"])
        for name, each in task["baselines"].get(fraction, {}).items()
    ]
    heading = f"{_metric(results)} on {task['evaluated_on']}, with 95% intervals"
    return ladder_plot(heading, rows, levels, is_fraction(task["metric"]))


def _metric(results: Results) -> str:
    """Return the title of the metric that is compared, with a capital letter."""
    name = title(results["task"]["metric"])
    return f"{name[:1].upper()}{name[1:]}"


def label_curve(results: Results) -> Markup:
    """Return the chart of results by the number of labels; empty if there is only one number.

    It has the `MOST_CURVES` best lines of rungs and ways, and the baselines other than the constant
    ones.
    """
    task = results["task"]
    fractions = sorted(set(results["settings"]["fractions"]))
    if not task or len(fractions) < 2:
        return Markup("")
    counts: list[float] = [each * task["examples"]["train"] for each in fractions]
    lines: list[tuple[float, str, list[float], list[float]]] = []
    for rung in results["rungs"]:
        for way in ("frozen", "tuned"):
            points = [
                (n, own[way]["value"])
                for n, fraction in zip(counts, fractions, strict=True)
                if way in (own := rung.get("task", {}).get(f"{fraction:g}", {}))
            ]
            if points:
                xs, ys = zip(*points, strict=True)
                lines.append((ys[-1], f"{rung['title']}, {WAYS[way]}", list(xs), list(ys)))
    best = sorted(lines, key=lambda line: -line[0])[:MOST_CURVES]
    series = [
        Series(name, xs, ys, style) for (_, name, xs, ys), style in zip(best, _STYLES, strict=False)
    ]
    names = task["baselines"].get(_most(results), {})
    for name in [name for name in names if name not in ("majority", "mean")]:
        levels = [task["baselines"][f"{each:g}"][name]["value"] for each in fractions]
        series.append(Series(baseline_title(name), counts, levels, "words"))
    metric = task["metric"]
    return chart(title(metric), series, "labelled examples", is_fraction(metric))


def write_ladder(folder: Path, out: Path | None = None) -> Path:
    """Write the page of the comparison in a folder, and return its path.

    The default of `out` is `report.html` in the folder.

    Raises:
        DataError: there are no results yet, or they are damaged.
        ConfigError: `out` cannot be the name of a file.
    """
    results = read_object(folder / RESULTS)
    if not results:
        raise DataError(
            f"{folder} has no {RESULTS} yet: it is written at the end of each system; let the "
            "comparison go on"
        )
    out = out or folder / "report.html"
    write_page(out, ladder_page(results, folder))
    return out


def ladder_page(results: Results, folder: Path) -> str:
    """Return the page of a comparison; `folder` is the folder of its runs."""
    task = results["task"]
    return render(
        "ladder.html.j2",
        name=folder.resolve().name,
        heading=f"{folder.resolve().name}: systems compared",
        results=results,
        subtitle=list(_subtitle(results)),
        conclusion=results["conclusion"],
        picture=picture(results),
        curve=label_curve(results),
        metric=_metric(results) if task else "",
        task_table=task_table(results) if task else None,
        by_fraction=list(by_fraction(results)),
        text_table=text_table(results),
        left_out=list(_left_out(results)),
        rungs=[_rung(rung, results) for rung in results["rungs"]],
        settings={k: v for k, v in results["settings"].items() if v not in (None, (), [], "")},
    )


def _subtitle(results: Results) -> Iterator[str]:
    text, task = results["text"], results["task"]
    settings = results["settings"]
    if text:
        yield f"{count(text['train']['characters'])} characters of text"
    if settings["tokens"] is None:
        yield f"{settings['minutes']:g} min of pre-training each"
    else:
        yield f"{settings['tokens']:,} tokens of pre-training each"
    if task:
        yield f"{task['kind']}, {task['examples']['train']:,} labelled examples"
    yield f"{results['environment']['cores']} cores"


def by_fraction(results: Results) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield a heading and the rows of the task's results for each smaller number of labels."""
    task = results["task"]
    fractions = sorted(set(results["settings"]["fractions"])) if task else []
    for fraction in fractions[:-1]:
        rows = []
        for rung in results["rungs"]:
            own = rung.get("task", {}).get(f"{fraction:g}", {})
            cells = [_cell(task["metric"], own.get(way)) for way in task["ways"]]
            rows.append([rung["title"], *cells, ""])
        for name, each in task["baselines"].get(f"{fraction:g}", {}).items():
            no_way = [""] * len(task["ways"])
            rows.append([baseline_title(name), *no_way, _cell(task["metric"], each)])
        yield f"{round(fraction * task['examples']['train']):,} labelled examples", rows


def _left_out(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the systems that are left out, grouped by reason, with their reason."""
    names: dict[str, list[str]] = {}
    for name, reason in results["left_out"].items():
        names.setdefault(reason, []).append(name)
    for reason, own in names.items():
        yield ", ".join(own), reason


def _rung(rung: Mapping[str, Any], results: Results) -> dict[str, Any]:
    """Return a rung's results with the links and the fits that the page shows."""
    links = []
    if rung.get("has_page"):
        links.append(("its pre-training", f"{rung['run']}/report.html"))
    fits = []
    for fraction, ways in rung.get("task", {}).items():
        for way, own in ways.items():
            labels = f"{own['examples']:,} of {own['of_examples']:,} examples"
            if own["examples"] == own["of_examples"]:
                labels = f"{own['examples']:,} examples"
            said = f"{WAYS[way]}: {labels}"
            if own["rate"] is not None:  # else a linear layer that was fitted without steps
                said += f", {own['epochs']:.3g} epochs at {own['rate']:g}"
            if own["degenerate"]:
                said += "; one prediction for all"
            page = f"{own['run']}/report.html" if own["has_page"] else ""
            fits.append((said, page, fraction))
    return {"links": links, "fits": fits, **rung}
