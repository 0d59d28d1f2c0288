"""Make HTML pages of runs from `templates/*.html.j2`, each a single file that needs no network.

Only the button that copies a command and the attention page have scripts. Everything that a
template prints is escaped (Jinja2's autoescape), including paths, tokens and keys, except for the
markup of `plots`. `RUN/report.html` is the page of a pre-training or fine-tuning run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from statistics import fmean
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.errors import ConfigError
from bertwright.progress import clock
from bertwright.report import curves
from bertwright.report.comparison.labelled import Labelled
from bertwright.report.curves import Record
from bertwright.report.numbers import (
    baseline_title,
    count,
    number,
    show,
    title,
)
from bertwright.report.plots import Series, chart, key
from bertwright.report.read import RunFiles, mapping
from bertwright.report.sections import prepared
from bertwright.report.sentences import FILTERS
from bertwright.report.vector_plot import dots_of
from bertwright.report.verdict import (
    Results,
    Verdict,
    baselines,
    interval,
    metrics_table,
    next_steps,
    pretraining_verdict,
    show_summary,
    verdict,
)
from bertwright.tasks.catalogue import KINDS

MOST_CLASSES = 30
"""The maximum number of classes of a confusion matrix that is shown; a larger one is unreadable."""
MOST_METRICS = 4
"""The maximum number of columns of metrics in the table of seeds."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def render(template: str, **variables: Any) -> str:
    """Render a template.

    Characters that HTML cannot contain (controls, lone surrogates) are replaced by U+FFFD.
    """
    return _UNPRINTABLE.sub("\ufffd", _templates().get_template(template).render(variables))


def write_page(out: Path, page: str) -> None:
    """Write a page atomically.

    Raises:
        ConfigError: `out` cannot be the name of a file.
        BertwrightError: the disk is full or the folder is not writable.
    """
    if out.is_dir() or not out.parent.is_dir():
        raise ConfigError(f"--out is {out}; expected a file in a folder that exists")
    with atomic_file(out, overwrite=True) as file:
        file.write(page)


def write_report(run: RunFiles, out: Path | None = None, labelled: Labelled | None = None) -> Path:
    """Write the page of a run, and return its path.

    The default of `out` is `report.html` in the run's folder. `labelled` is the section about the
    labelled task of a quickstart.

    Raises:
        ConfigError: `out` cannot be the name of a file.
        BertwrightError: the disk is full or the folder is not writable.
    """
    out = out or run.folder / "report.html"
    write_page(out, run_page(run, labelled))
    return out


def run_page(run: RunFiles, labelled: Labelled | None = None) -> str:
    """Return the page of a run."""
    return _finetuned_page(run) if run.results else _pretrained_page(run, labelled)


def vector_page(
    name: str,
    points: Float32s,
    texts: Sequence[str],
    values: Sequence[str],
    column: str | None,
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a page with texts drawn as dots.

    `facts` are pairs of a number and its name, which are shown above the plot. See `dots_of` for
    the other arguments.
    """
    heading, plot = f"Texts of {name}", dots_of(points, texts, values, column)
    return render("vectors.html.j2", heading=heading, facts=facts, plot=plot)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("bertwright.report"),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        finalize=lambda value: "-" if value is None else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    more: dict[str, Callable[..., object]] = {
        "values": _values,
        "basename": lambda path: PurePath(str(path or "")).name,
        "clock": clock,
    }
    environment.filters |= FILTERS | more
    environment.globals["key"] = key
    return environment


def _pretrained_page(run: RunFiles, labelled: Labelled | None) -> str:
    config, environment = run.config, run.environment
    data, threads = config.get("data"), environment.get("threads")
    on = f"{threads} thread{'s' * (threads != 1)}" if threads else None
    return render(
        "pretrained.html.j2",
        name=run.name,
        run=run,
        labelled=labelled,
        facts=[
            config.get("model"),
            mapping(config.get("instances")).get("objectives"),
            f"on {data}" if isinstance(data, str) and data else None,
            environment.get("gpu") or on,
            None if environment.get("gpu") or not on else environment.get("precision"),
        ],
        headline=list(_headline(run)),
        curves=curves.run_curves(run),
        config=values.flatten(config),
        verdict=_pretraining_verdict(run),
        sections=[prepared(section) for section in run.examples.get("sections", [])],
    )


def _pretraining_verdict(run: RunFiles) -> Verdict:
    """Return the verdict that was written with the examples.

    If the run was continued since, the verdict is that of the log.
    """
    written = mapping(run.examples.get("verdict"))
    last = (run.split("dev") or run.records)[-1]
    if written and run.examples.get("step") == last.get("step"):
        return Verdict(written["answer"], written["sentence"])
    return pretraining_verdict(run.records, mapping(run.examples.get("baselines")))


def _headline(run: RunFiles) -> Iterator[tuple[str, str]]:
    dev, train = run.split("dev"), run.split("train")
    last = dev[-1] if dev else train[-1] if train else run.records[-1]
    where = "on held-out text" if dev else "on training text"
    objectives = {name: curves.objective_title(name) for name in curves.objectives(run.records)}
    for name, shown in objectives.items():
        accuracy = number(last.get(f"{name}.accuracy"))
        if accuracy is not None:
            yield f"{accuracy:.1%}", f"{shown} accuracy, {where}"
    for name, shown in objectives.items():
        loss = number(last.get(f"{name}.loss"))
        if loss is not None:
            yield f"{loss:.3f}", f"{shown} loss, {where}"
    end = run.records[-1]
    yield count(end.get("tokens")), "tokens trained on"
    step = number(end.get("step")) or 0
    yield clock(number(end.get("seconds")) or 0.0), f"for {count(step)} step{'s' * (step != 1)}"
    rates = [r for r in (number(each.get("tokens_per_second")) for each in train) if r is not None]
    if rates:
        yield count(sorted(rates)[len(rates) // 2]), "tokens per second, median"


def _finetuned_page(run: RunFiles) -> str:
    results = run.results
    several = results.get("tasks", {})
    tasks = [
        {"name": name, **_task_facts(found, run.records, f"{name}.")}
        for name, found in several.items()
    ]
    if not several:
        tasks = [_task_facts(results, run.records)]
    transfer = results.get("transfer")
    return render(
        "finetuned.html.j2",
        name=run.name,
        run=run,
        facts=[
            None if several else _kind(results),
            results.get("name") if results.get("name") != "task" else None,
            results.get("model"),
            results.get("settings", {}).get("random_start") and "random initialization",
            "all weights trained" if transfer == "finetune" else transfer,
            run.environment.get("gpu"),
        ],
        several=bool(several),
        overview=[
            [
                name,
                _kind(found),
                title(found["main"]),
                show_summary(found, found["main"]),
                verdict(found).answer,
            ]
            for name, found in several.items()
        ],
        tasks=tasks,
    )


def _kind(results: Results) -> str:
    task = results["task"]
    return (
        "multi-label classification"
        if task["options"].get("multi_label")
        else task["kind"].replace("-", " ")
    )


def _task_facts(results: Results, records: Sequence[Record], prefix: str = "") -> dict[str, Any]:
    """Return the variables of `task.html.j2`.

    `prefix` is the prefix of the task's keys in the records of a run with several tasks.
    """
    main = results["main"]
    columns, rows = metrics_table(results)
    metrics = [metric for seed in results["seeds"] for metric in seed["metrics"]]
    confusion = results["confusion"] or {"labels": []}
    entry = KINDS.get(results["task"]["kind"])
    return {
        "results": results,
        "task": results["task"],
        "kind": _kind(results),
        "main": main,
        "headline": list(_task_headline(results)),
        "verdict": verdict(results),
        "next_steps": next_steps(results),
        "curves": curves.seed_curves(results, records, prefix),
        "metric_columns": columns,
        "metric_rows": rows,
        "seed_metrics": list(dict.fromkeys([main, *metrics]))[:MOST_METRICS],
        "labels": confusion["labels"],
        "matrix": confusion.get("counts") if len(confusion["labels"]) <= MOST_CLASSES else [],
        "layers": _layers(results["layer_weights"]),
        "calibration": _calibration(results["calibration"]),
        "error_form": "" if entry is None else entry.error,
        "settings": values.flatten(results["settings"]),
        "task_settings": values.flatten(results["task"]),
    }


def _task_headline(results: Results) -> Iterator[tuple[str, str]]:
    main, seeds, data = results["main"], results["seeds"], results["data"]
    over = f"mean ± sd of {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    yield show_summary(results, main), f"{title(main)} on dev, {over}"
    if ends := interval(results, main):
        low, high = (show(main, end).removesuffix("%") for end in ends)
        yield f"{low} to {high}", "95% interval of the saved model, by bootstrap of dev"
    for name, value in baselines(results, main).items():
        yield show(main, value), f"{title(main)} of {baseline_title(name)}"
    if degenerate := sum(seed["degenerate"] for seed in seeds):
        yield f"{degenerate} of {len(seeds)}", "seeds degenerate: one prediction for all examples"
    if diverged := len(results["diverged"]):
        yield f"{diverged} of {len(seeds) + diverged}", "seeds diverged, not in any figure"
    train, dev = (count(data[split]["examples"]) for split in ("train", "dev"))
    yield train, f"training examples; {dev} of dev"
    on_average = ", on average" if len(seeds) > 1 else ""
    yield clock(fmean(seed["seconds"] for seed in seeds)), f"per seed{on_average}"


def _layers(weights: Mapping[str, float]) -> Markup:
    """Return a chart of the weight of each layer; empty if the weights are not learned."""
    numbers = [int(layer) for layer in weights]
    names = ["embeddings", *map(str, range(1, max(numbers, default=0) + 1))]
    line = Series("weight", numbers, list(weights.values()), "dev", legend="")
    return chart("Weight of a layer", [line], "layer", True, from_zero=True, x_labels=names)


def _calibration(calibration: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the mean confidence, the accuracy, the calibration error, and the number of
    predictions.

    The result is empty without calibration.
    """
    if calibration is None:
        return {}
    total = sum(each["count"] for each in calibration["bins"])
    means = {
        key: sum(each[key] * each["count"] for each in calibration["bins"]) / total
        for key in ("confidence", "accuracy")
    }
    return {**means, "error": calibration["error"], "total": total}


def _values(value: object, kind: object = "") -> str:
    """Return a label, labels, tags, a number or an answer as text."""
    entry = KINDS.get(str(kind))
    if value is None or value in ("", []):
        return "none" if entry is None else entry.nothing
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return (", " if entry is None else entry.separator).join(map(str, value))
    return str(value)
