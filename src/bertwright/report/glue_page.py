"""The page of a GLUE run: a row a task and metric, each task with a link to its own page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertwright.report.finetuned_data import mapping
from bertwright.report.html import Markup, page, settings, table, text, tiles, write_page
from bertwright.report.numbers import baseline_title, count, number, show, spread, title
from bertwright.report.run_page import is_run, read_object, read_run, write_report
from bertwright.report.shapes import expect_glue
from bertwright.report.verdict import GLUE


def is_glue(folder: Path) -> bool:
    """Whether it is the folder of a GLUE run that is finished."""
    return not is_run(folder) and (folder / GLUE).is_file()


def write_glue_report(folder: Path, out: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write the page of every task into its folder, and the one of all (unset: `report.html`).

    Returns:
        The path of the page of all, and what `glue.json` holds.

    Raises:
        DataError: a file is damaged.
        ConfigError: `out` cannot be the name of a file.
        BertwrightError: the disk is full or the place is not writable.
    """
    whole = read_object(folder / GLUE, expect_glue)
    out = out or folder / "report.html"
    pages = {
        name: os.path.relpath(write_report(read_run(folder / name)), out.parent)
        for name in mapping(whole.get("tasks"))
        if is_run(folder / name)
    }
    name = folder.resolve().name
    write_page(out, page(f"{name} · Bertwright", _parts(name, whole, pages)))
    return out, whole


def _parts(name: str, whole: Mapping[str, Any], pages: Mapping[str, str]) -> Iterator[str]:
    tasks = {str(task): mapping(found) for task, found in mapping(whole.get("tasks")).items()}
    yield f"<h1>{text(name)}</h1>"
    yield f'<p class="soft">GLUE, dev sets · {text(whole.get("model", ""))}</p>'
    yield tiles(_headline(whole, tasks), wide=True)
    yield f"<h2>Tasks</h2>{_table(tasks, pages)}"
    warnings = [
        f"{task}: {w}" for task, found in tasks.items() for w in found.get("warnings") or []
    ]
    lines = "".join(f"<li>{text(warning)}</li>" for warning in warnings)
    yield f'<h3>Warnings</h3><ul class="warnings">{lines}</ul>' if lines else ""
    yield settings("Settings", mapping(whole.get("settings")))


def _headline(whole: Mapping[str, Any], tasks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    figures = [("average", len(tasks), "")]
    if "WNLI" in tasks:
        figures += [("average_without_wnli", len(tasks) - 1, ", without WNLI")]
    for key, several, without in figures:
        average = number(whole.get(key))
        if average is not None:
            yield f"{100 * average:.1f}", f"average over {several} tasks{without}; of dev, not test"


def _table(tasks: Mapping[str, Mapping[str, Any]], pages: Mapping[str, str]) -> str:
    others = sorted(
        {str(name) for task in tasks.values() for name in mapping(task.get("baselines"))}
    )
    rows: list[list[object]] = []
    for name, task in tasks.items():
        shown: object = name
        if name in pages:
            shown = Markup(f'<a href="{text(Path(pages[name]).as_posix())}">{text(name)}</a>')
        first = [shown, count(task.get("train")), count(task.get("dev")), task.get("seeds", "-")]
        baselines = [mapping(mapping(task.get("baselines")).get(each)) for each in others]
        for metric, value in mapping(task.get("metrics")).items():
            found = mapping(value)
            several = (number(task.get("seeds")) or 1) > 1
            figures = [spread(metric, found.get("mean"), found.get("sd") if several else None)]
            figures += [show(metric, found.get("max"))]
            figures += [show(metric, each.get(metric)) for each in baselines]
            rows.append([*first, title(str(metric)), *figures])
            first = [""] * len(first)
        for what, value in mapping(task.get("more")).items():
            rest = [""] * (1 + len(others))
            rows.append([*first, str(what), show("accuracy", value), *rest])
    columns = ["task", "train", "dev", "seeds", "metric", "mean ± sd", "max"]
    columns += map(baseline_title, others)
    return table(columns, rows, (1, 2, 3, *range(5, len(columns))))
