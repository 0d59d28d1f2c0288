"""The table of the results of a GLUE run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertwright.report.numbers import spread, title
from bertwright.report.sentences import sentence

_BASELINES = {"majority": ("majority", "mean"), "TF-IDF": ("tfidf", "tfidf_ridge")}
"""The columns of baselines: the most frequent class (or the mean), and a TF-IDF model."""


def table(whole: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a run's table, for the screen and `glue.md`."""
    tasks = whole["tasks"]
    beside = {
        title: names
        for title, names in _BASELINES.items()
        if any(name in task["baselines"] for task in tasks.values() for name in names)
    }
    columns = ["task", "train", "dev", "metric", "mean ± sd", "max", "seeds", *beside, "notes"]
    rows = []
    for name, task in tasks.items():
        first = [name, f"{task['train']:,}", f"{task['dev']:,}"]
        seeds, said, b = str(task["seeds"]), notes(task), task["baselines"]
        for metric, values in task["metrics"].items():
            simple = [
                next((b[each].get(metric) for each in names if each in b), None)
                for names in beside.values()
            ]
            rows.append(
                [
                    *first,
                    title(metric).removesuffix(" correlation"),
                    spread(metric, values["mean"], values["sd"]),
                    spread(metric, values["max"], None),
                    seeds,
                    *(spread(metric, value, None) for value in simple),
                    said,
                ]
            )
            first, seeds, said = ["", "", ""], "", ""
        for what, value in task["more"].items():
            shown = spread("accuracy", value, None)
            rows.append([*first, what, shown, "", "", *("" for _ in beside), "best seed"])
    return columns, rows


def notes(task: Mapping[str, Any]) -> str:
    """Return a note with the numbers of seeds of a task that failed; empty if none did."""
    failed = {word: task.get(word, 0) for word in ("degenerate", "diverged")}
    return ", ".join(f"{count} {word}" for word, count in failed.items() if count)


def averages(whole: Mapping[str, Any]) -> str:
    """Return a sentence with the averages over tasks, and the number of tasks that they include."""
    tasks = whole["tasks"]
    return sentence(
        "glue",
        "averages",
        tasks=len(tasks),
        average=whole["average"],
        without_wnli=whole["average_without_wnli"] if "WNLI" in tasks else None,
        has_mnli="MNLI" in tasks,
    )
