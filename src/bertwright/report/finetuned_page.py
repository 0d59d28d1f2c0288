"""The page of a fine-tuned run, from its `results.json` and the records of its seeds.

Is the BERT worth it, curves, seeds, errors, lengths, data: each section only where there is data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bertwright.config import values
from bertwright.report import judged
from bertwright.report.figures import clock, count, figure
from bertwright.report.html import Markup, bars, settings, table, text, tiles
from bertwright.report.seed_curves import curves
from bertwright.tasks.results import (
    Results,
    baseline_title,
    baselines,
    interval,
    number,
    show,
    show_interval,
    show_summary,
    title,
    verdict,
)

MOST_METRICS = 4
"""Columns of metrics in the table of seeds."""


def sections(
    name: str,
    results: Results,
    records: Sequence[Mapping[str, Any]],
    environment: Mapping[str, Any],
) -> Iterator[str]:
    """The parts of the page, in order."""
    task = _mapping(results.get("task"))
    yield f"<h1>{text(name)}</h1>"
    yield f'<p class="soft">{_subtitle(results, task, environment)}</p>'
    yield tiles(_headline(results), wide=True)
    yield _worth(results)
    yield _warnings(results)
    yield curves(results, records)
    yield _summary(results)
    yield _seeds(results)
    yield judged.confusion(results.get("confusion"))
    yield judged.per_class(results.get("per_class") or [])
    yield judged.calibration(results.get("calibration"))
    yield judged.worst(results.get("worst") or [], str(task.get("kind", "")))
    yield _lengths(_mapping(results.get("lengths")), task)
    yield _tuned(_mapping(results.get("tuned")))
    yield _data(_mapping(results.get("data")))
    yield settings("Settings", _flat(results.get("settings")))
    yield settings("Task", _flat(task))
    yield settings("Environment", environment)


def _subtitle(results: Results, task: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """Kind, model, transfer, machine, in one line."""
    kind = str(task.get("kind", "")).replace("-", " ")
    if task.get("multi_label"):
        kind = "multi-label classification"
    transfer = results.get("transfer")
    facts = [
        kind,
        results.get("name"),
        results.get("model"),
        "all weights trained" if transfer == "finetune" else transfer and f"transfer: {transfer}",
        environment.get("gpu"),
        f"Bertwright {environment['bertwright']}" if "bertwright" in environment else None,
    ]
    return " · ".join(text(fact) for fact in facts if fact)


def _headline(results: Results) -> Iterator[tuple[str, str]]:
    """The figures one looks for first."""
    main = str(results.get("main", ""))
    seeds = results.get("seeds") or []
    over = f"mean ± sd of {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    yield show_summary(results, main), f"{title(main)} on dev, {over}"
    found = interval(results, main)
    if found:
        low, high = (show(main, end).removesuffix("%") for end in found)
        yield f"{low} to {high}", "its 95% interval, by bootstrap of the dev examples"
    for name, value in baselines(results, main).items():
        yield show(main, value), f"{title(main)} of {baseline_title(name)}"
    fallen = sum(bool(seed.get("degenerate")) for seed in seeds)
    if fallen:
        yield f"{fallen} of {len(seeds)}", "seeds degenerate: one answer for all examples"
    data = _mapping(results.get("data"))
    sizes = [_mapping(data.get(split)).get("examples") for split in ("train", "dev")]
    if all(sizes):
        yield count(sizes[0]), f"examples to train on; {count(sizes[1])} of dev"
    seconds = [s for s in (number(seed.get("seconds")) for seed in seeds) if s is not None]
    if seconds:
        yield clock(sum(seconds) / len(seconds)), "minutes a seed"


def _worth(results: Results) -> str:
    """Is the BERT worth it: a sentence, and the figures as bars."""
    main = str(results.get("main", ""))
    answer, sentence = verdict(results)
    head = f'<h2>Is the BERT worth it?</h2><p class="verdict {answer}">{text(sentence)}</p>'
    mean = number(_mapping(_mapping(results.get("summary")).get(main)).get("mean"))
    others = baselines(results, main)
    if mean is None or not others:
        return head
    figures = {"this BERT": mean}
    figures.update((baseline_title(name), value) for name, value in others.items())
    shown = bars(
        ((name, value, value == max(figures.values())) for name, value in figures.items()),
        lambda value: show(main, value),
    )
    return f'{head}<div class="card"><p class="soft">{text(title(main))}</p>{shown}</div>'


def _warnings(results: Results) -> str:
    """What the run warned of."""
    found = results.get("warnings") or []
    lines = "".join(f"<li>{text(warning)}</li>" for warning in found)
    return f'<h3>Warnings</h3><ul class="warnings">{lines}</ul>' if lines else ""


def _summary(results: Results) -> str:
    """Every metric: mean ± sd, best, interval, baselines."""
    summary = _mapping(results.get("summary"))
    others = _mapping(results.get("baselines"))
    several = len(results.get("seeds") or []) > 1
    columns = ["metric", "mean ± sd" if several else "value"]
    columns += ["best seed"] if several else []
    columns += ["95% interval"] if results.get("intervals") else []
    columns += [baseline_title(str(name)) for name in others]
    rows = []
    for metric, found in summary.items():
        row = [title(str(metric)), show_summary(results, metric)]
        row += [show(metric, _mapping(found).get("max"))] if several else []
        row += [show_interval(results, metric)] if results.get("intervals") else []
        row += [show(metric, _mapping(values).get(metric)) for values in others.values()]
        rows.append(row)
    made = table(columns, rows, range(1, len(columns)))
    return f"<h2>All metrics, on dev</h2>{made}" if rows else ""


def _seeds(results: Results) -> str:
    """A row a seed; the degenerate ones are named."""
    seeds = results.get("seeds") or []
    if not seeds:
        return ""
    main = str(results.get("main", ""))
    found = [m for seed in seeds for m in _mapping(seed.get("metrics")) if m != main]
    metrics = [main, *dict.fromkeys(found)][:MOST_METRICS]
    rows = []
    for seed in seeds:
        notes = []
        if seed.get("seed") == results.get("best_seed"):
            notes.append('<span class="ok">best, kept</span>')
        if seed.get("degenerate"):
            notes.append('<span class="error">degenerate</span>')
        rows.append(
            [
                seed.get("seed", "-"),
                Markup(", ".join(notes)),
                *(show(m, _mapping(seed.get("metrics")).get(m)) for m in metrics),
                _of(seed.get("best_epoch"), seed.get("epochs")),
                clock(number(seed.get("seconds")) or 0.0),
                figure(seed.get("examples_per_second")),
            ]
        )
    columns = ["seed", "", *map(title, metrics), "best epoch", "minutes", "examples/s"]
    return f"<h2>Seeds</h2>{table(columns, rows, (0, *range(2, len(columns))))}"


def _lengths(lengths: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """How long the texts are beside the window, and what became of long ones."""
    found = {str(split): _mapping(each) for split, each in lengths.items() if each}
    if not found:
        return ""
    lost = {split: number(each.get("cut")) or 0 for split, each in found.items()}
    window, stride = task.get("max_length"), task.get("stride")
    said = f"A window holds {window} tokens; neighbours share {stride}. " if window else ""
    if any(lost.values()):
        gone = " and ".join(
            f"{count(cut)} of {count(found[split].get('examples'))} examples of {split} "
            f"({count(found[split].get('tokens_cut'))} tokens)"
            for split, cut in lost.items()
            if cut
        )
        said += f"Something was cut of {gone}."
    else:
        said += "Nothing was cut."
    quantiles = (
        ("median_tokens", "tokens, median"),
        ("p90_tokens", "tokens, nine of ten have no more"),
        ("p99_tokens", "tokens, 99 of 100 have no more"),
        ("longest_tokens", "tokens, the longest"),
    )
    rows = [
        ["examples", *(count(each.get("examples")) for each in found.values())],
        *([name, *(count(each.get(key)) for each in found.values())] for key, name in quantiles),
        ["read in several windows", *map(_in_windows, found.values())],
        ["windows in all", *(count(each.get("windows")) for each in found.values())],
        ["examples cut", *(count(cut) for cut in lost.values())],
        ["tokens cut", *(count(each.get("tokens_cut")) for each in found.values())],
    ]
    columns = ["", *found]
    made = table(columns, rows, range(1, len(columns)))
    return f"<h2>Lengths, and what was cut</h2><p>{text(said)}</p>{made}"


def _in_windows(lengths: Mapping[str, Any]) -> str:
    several, whole = number(lengths.get("in_windows")), number(lengths.get("examples"))
    return f"{count(several)} ({several / whole:.1%})" if several and whole else count(several)


def _tuned(found: Mapping[str, Any]) -> str:
    """What was chosen on dev, and what it does."""
    meaning = {
        "null_threshold": "no answer where its score is above the best span's by more than this",
        "best_f1_threshold": "the null threshold of the best F1 on these examples",
        "best_exact_match_threshold": "the null threshold of most exact matches on these examples",
    }
    rows = [
        [Markup(f"<code>{text(name)}</code>"), figure(value), meaning.get(str(name), "")]
        for name, value in found.items()
        if value is not None
    ]
    return f"<h2>Tuned on dev</h2>{table(['', 'value', ''], rows, (1,))}" if rows else ""


def _data(found: Mapping[str, Any]) -> str:
    """Files, sizes, and which column was taken for what."""
    rows = []
    for split, each in found.items():
        of = _mapping(each)
        columns = of.get("columns")
        if isinstance(columns, Mapping):
            columns = ", ".join(f"{key}: {value}" for key, value in columns.items() if value)
        file = PurePath(str(of.get("file", ""))).name
        rows.append(
            [split, file, count(of.get("examples")), of.get("format") or "-", columns or "-"]
        )
    columns_ = ["", "file", "examples", "format", "columns"]
    return f"<h2>The data</h2>{table(columns_, rows, (2,))}" if rows else ""


def _of(best: object, epochs: object) -> str:
    """`2 of 3`"""
    return figure(best) if epochs is None else f"{figure(best)} of {figure(epochs)}"


def _flat(found: object) -> dict[str, Any]:
    """Nested settings as `optimizer.learning_rate`."""
    return values.flatten(dict(_mapping(found)))


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
