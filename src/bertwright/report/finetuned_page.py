"""The page of a fine-tuned run, from its `results.json` and the records of its seeds.

Is the BERT worth it, curves, seeds, errors, lengths, data: each section only where there is data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertwright.config import values
from bertwright.report import judged
from bertwright.report.finetuned_data import (
    data_section,
    lengths_section,
    mapping,
    tuned_section,
)
from bertwright.report.html import Markup, bars, settings, table, text, tiles
from bertwright.report.numbers import (
    baseline_title,
    clock,
    count,
    direction,
    figure,
    number,
    show,
    title,
)
from bertwright.report.predicted import Pair, number_pairs, numbers
from bertwright.report.seed_curves import curves
from bertwright.report.verdict import (
    Results,
    baselines,
    interval,
    show_interval,
    show_summary,
    verdict,
)

MOST_METRICS = 4
"""Columns of metrics in the table of seeds."""


def sections(
    name: str,
    results: Results,
    records: Sequence[Mapping[str, Any]],
    environment: Mapping[str, Any],
    predictions: Sequence[Mapping[str, Any]] = (),
) -> Iterator[str]:
    """The parts of the page, in order: of one task, or of several, one after the other."""
    pairs = number_pairs(predictions)
    tasks = mapping(results.get("tasks"))
    yield f"<h1>{text(name)}</h1>"
    yield f'<p class="soft">{_subtitle(results, environment)}</p>'
    if tasks:
        yield _overview(tasks)
        for task, found in tasks.items():
            yield f'<h1 class="task">{text(task)}</h1>'
            yield f'<p class="soft">{text(_kind(found))}</p>'
            yield from _task(found, records, pairs.get(task, []), f"{task}.")
    else:
        yield from _task(results, records, pairs.get(str(results.get("name")), []))
    yield settings("Environment", environment)


def _task(
    results: Results,
    records: Sequence[Mapping[str, Any]],
    pairs: Sequence[Pair],
    prefix: str = "",
) -> Iterator[str]:
    """All of one task; `prefix` begins its keys in the records of several."""
    task = mapping(results.get("task"))
    yield tiles(_headline(results), wide=True)
    yield _worth(results)
    yield _warnings(results)
    yield curves(results, records, prefix)
    yield _summary(results)
    yield _seeds(results)
    yield judged.confusion(results.get("confusion"))
    yield judged.per_class(results.get("per_class") or [])
    yield judged.calibration(results.get("calibration"))
    yield numbers(pairs)
    of_dev = mapping(mapping(results.get("data")).get("dev"))
    yield judged.worst(
        results.get("worst") or [], str(task.get("kind", "")), str(of_dev.get("format") or "")
    )
    yield lengths_section(mapping(results.get("lengths")), task)
    yield tuned_section(mapping(results.get("tuned")))
    yield data_section(mapping(results.get("data")))
    yield settings("Settings", _flat(results.get("settings")))
    yield settings("Task", _flat(task))


def _overview(tasks: Mapping[str, Results]) -> str:
    """A row a task: its main metric, and whether the BERT is worth it."""
    rows = []
    for name, found in tasks.items():
        main = str(found.get("main", ""))
        answer, _ = verdict(found)
        rows.append([name, _kind(found), title(main), show_summary(found, main), answer])
    columns = ["task", "kind", "metric", "mean ± sd", "worth it?"]
    return f"<h2>Tasks over one encoder</h2>{table(columns, rows, (3,))}"


def _kind(results: Results) -> str:
    task = mapping(results.get("task"))
    if task.get("multi_label"):
        return "multi-label classification"
    return str(task.get("kind", "")).replace("-", " ")


def _subtitle(results: Results, environment: Mapping[str, Any]) -> str:
    """Kind, model, transfer, machine, in one line."""
    transfer = results.get("transfer")
    random = mapping(results.get("settings")).get("random_start")
    facts = [
        _kind(results),
        results.get("name") if results.get("name") != "task" else None,
        results.get("model"),
        "started from random weights" if random else None,
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
        yield f"{low} to {high}", "95% interval of the kept model, by bootstrap of dev"
    for name, value in baselines(results, main).items():
        yield show(main, value), f"{title(main)} of {baseline_title(name)}"
    fallen = sum(bool(seed.get("degenerate")) for seed in seeds)
    if fallen:
        yield f"{fallen} of {len(seeds)}", "seeds degenerate: one answer for all examples"
    diverged = results.get("diverged") or []
    if diverged:
        yield f"{len(diverged)} of {len(seeds) + len(diverged)}", "seeds diverged: in no figure"
    data = mapping(results.get("data"))
    sizes = [mapping(data.get(split)).get("examples") for split in ("train", "dev")]
    if all(sizes):
        yield count(sizes[0]), f"examples to train on; {count(sizes[1])} of dev"
    seconds = [s for s in (number(seed.get("seconds")) for seed in seeds) if s is not None]
    if seconds:
        yield (
            clock(sum(seconds) / len(seconds)),
            "for a seed" + (", on average" if len(seconds) > 1 else ""),
        )


def _worth(results: Results) -> str:
    """Is the BERT worth it: a sentence, and the figures as bars."""
    main = str(results.get("main", ""))
    answer, sentence = verdict(results)
    head = f'<h2>Is the BERT worth it?</h2><p class="verdict {answer}">{text(sentence)}</p>'
    mean = number(mapping(mapping(results.get("summary")).get(main)).get("mean"))
    others = baselines(results, main)
    if mean is None or not others:
        return head
    figures = {"this BERT": mean}
    figures.update((baseline_title(name), value) for name, value in others.items())
    best = max(figures.values(), key=lambda value: direction(main) * value)
    shown = bars(
        ((name, value, value == best) for name, value in figures.items()),
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
    summary = mapping(results.get("summary"))
    others = mapping(results.get("baselines"))
    seeds = results.get("seeds") or []
    several = len(seeds) > 1
    columns = ["metric", "mean ± sd" if several else "value"]
    columns += ["the kept model"] if several else []
    columns += [f"95% interval{' of the kept' * several}"] if results.get("intervals") else []
    columns += [baseline_title(str(name)) for name in others]
    kept: Mapping[str, Any] = next(
        (seed for seed in seeds if seed.get("seed") == results.get("best_seed")), {}
    )
    rows = []
    for metric in summary:
        row = [title(str(metric)), show_summary(results, metric)]
        row += [show(metric, mapping(kept.get("metrics")).get(metric))] if several else []
        row += [show_interval(results, metric)] if results.get("intervals") else []
        row += [show(metric, mapping(values).get(metric)) for values in others.values()]
        rows.append(row)
    made = table(columns, rows, range(1, len(columns)))
    flat = any((low := interval(results, m)) and low[0] == low[1] for m in summary)
    note = (
        "<p class='soft'>An interval of no width says that the examples were judged alike, "
        "not that the figure is certain.</p>"
    )
    return f"<h2>All metrics, on dev</h2>{made}{note * flat}" if rows else ""


def _seeds(results: Results) -> str:
    """A row a seed; the degenerate ones are named."""
    seeds = results.get("seeds") or []
    if not seeds:
        return ""
    main = str(results.get("main", ""))
    found = [m for seed in seeds for m in mapping(seed.get("metrics")) if m != main]
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
                *(show(m, mapping(seed.get("metrics")).get(m)) for m in metrics),
                _of(seed.get("best_epoch"), seed.get("epochs")),
                clock(number(seed.get("seconds")) or 0.0),
                _rate(seed.get("examples_per_second")),
            ]
        )
    columns = ["seed", "", *map(title, metrics), "best epoch", "time", "examples/s"]
    return f"<h2>Seeds</h2>{table(columns, rows, (0, *range(2, len(columns))))}"


def _rate(value: object) -> str:
    """Few digits: it varies from minute to minute."""
    found = number(value)
    return f"{found:.2g}" if found is not None and found < 10 else count(value)


def _of(best: object, epochs: object) -> str:
    """`2 of 3`"""
    return figure(best) if epochs is None else f"{figure(best)} of {figure(epochs)}"


def _flat(found: object) -> dict[str, Any]:
    """Nested settings as `optimizer.learning_rate`."""
    return values.flatten(dict(mapping(found)))
