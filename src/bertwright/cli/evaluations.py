"""What the verbs that evaluate share: the options of a labelled file, and how a result is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import FileOptions, Json, Overwrite
from bertwright.cli.output import JSON, counted, print_json, print_table, refuse_suffix
from bertwright.config.values import plain
from bertwright.console import say

if TYPE_CHECKING:
    from bertwright.labelled.columns import Columns


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """What is computed and where it is written."""

    intervals: bool = True
    """Compute 95 % confidence intervals by bootstrap."""
    out: Path | None = None
    """JSON file to write the whole result to."""
    overwrite: Overwrite = False
    json: Json = False

    def refuse_out(self) -> None:
        """Raise ConfigError if the result cannot be written to `out`."""
        refuse_suffix(self.out, *JSON)
        refuse_existing(self.out, self.overwrite)


@dataclass(frozen=True, kw_only=True)
class EvaluatedFile(FileOptions):
    """A labelled file to evaluate on."""

    data: str
    """Labelled file, as for finetune, or - for standard input."""
    label: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """Column of the label; unset: that of training, or found by its name. For a model with several
    labels per text: a column for each class, or the names of the classes of a list of 0 and 1."""
    label_map: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """Rename labels while reading, as 0=bad 1=good."""
    metric: str | None = None
    """Metric to print first; unset: the main metric of the kind of task."""

    def columns(self) -> Columns:
        """Return the columns that the options name, after the file was looked at.

        Raises:
            DataError: there is no such file, or it lacks a column.
        """
        from bertwright.labelled.columns import make_columns
        from bertwright.labelled.folders import refuse_missing
        from bertwright.labelled.look import look_for_columns

        refuse_missing(self.data)
        columns = make_columns(self.text, self.text2, self.label)
        look_for_columns(self.data, columns, self.format)
        return columns


def show_evaluation(found: Mapping[str, Any], result: ResultOptions) -> None:
    """Write and print the evaluation of a labelled file."""
    _write(found, result)
    say(f"{found['data']['file']}: {found['data']['format']}")
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    if result.json:
        print_json(found)
        return
    examples = counted(found["examples"], "example")
    title = f"{found['task']}: {examples} of {found['data']['file']}"
    _print_metrics(found, title, result.intervals)
    from bertwright.report.numbers import show
    from bertwright.report.numbers import title as metric_title

    for name, signature in found["signatures"].items():
        say(f"{metric_title(name)}: {signature}")
    if found["per_class"]:
        rows = [
            [
                row["label"],
                *(show("f1", row[key]) for key in ("precision", "recall", "f1")),
                int(row["support"]),
            ]
            for row in found["per_class"]
        ]
        print_table(["label", "precision", "recall", "F1", "examples"], rows)
    if longer := found["lengths"].get("in_windows"):
        say(f"examples longer than a window, read in several: {longer:,}")


def show_search(found: Mapping[str, Any], result: ResultOptions) -> None:
    """Write and print the evaluation of a search."""
    _write(found, result)
    for warning in found["warnings"]:
        say(f"warning: {warning}")
    if result.json:
        print_json(found)
        return
    queries = "query" if found["examples"] == 1 else "queries"
    documents = counted(found["documents"], "document")
    title = f"{found['data']['file']}: {found['examples']:,} {queries}, {documents}"
    _print_metrics(found, title, result.intervals)


def _write(found: Mapping[str, Any], result: ResultOptions) -> None:
    """Write the whole result as JSON, if a file is named."""
    if result.out is not None:
        with atomic_file(result.out, result.overwrite) as file:
            json.dump(plain(found), file, ensure_ascii=False, indent=1)
            file.write("\n")


def _print_metrics(found: Mapping[str, Any], title: str, intervals: bool) -> None:
    """Print a table of the metrics of an evaluation, with intervals and baselines."""
    from bertwright.report.numbers import baseline_title, show
    from bertwright.report.numbers import title as metric_title
    from bertwright.report.verdict import show_interval

    baselines = found.get("baselines", {})
    rows = [
        [
            metric_title(name),
            show(name, value),
            *([show_interval(found, name)] if intervals else []),
            *(show(name, each.get(name)) for each in baselines.values()),
        ]
        for name, value in found["metrics"].items()
    ]
    columns = ["metric", "value", *(["95 % interval"] if intervals else [])]
    print_table([*columns, *map(baseline_title, baselines)], rows, title)
