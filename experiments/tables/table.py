"""A table of the literature: the published figures, how ours are measured, and our results.

A folder of `experiments/tables` has `table.toml` and, where ours are measured, `results.jsonl`. Of
`table.toml`, this file reads

- `title`, `source`, `url`, `note`; `shown`, what would count as shown at the small budget;
- `[published]`: the published figures by row and column;
- `orderings`: the published claims, each a list of rows, `best_first`, in some columns;
- what the figures of a column are (`orderings.Column`): the keys `figure`, `margin`,
  `lower_is_better`, `floor` and `floor_is` of `[columns]`.

The rest says how ours are measured (`plan.py`). `shared.toml` has what the tables share.

`results.jsonl` has, for each budget, a line that says when and how it was measured, and a line for
each figure with the values of its seeds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from tables.orderings import Column, Ordering

from bertwright.atomic import atomic_file
from bertwright.report.comparison.rows import Results, Row

FOLDER = Path(__file__).parent
BUDGETS = ("small", "gpu")
COLUMN = tuple(field.name for field in fields(Column))
"""The keys of a column that say what its figures are."""
Options = dict[str, Any]
"""The keys of a command; those of a section have a dot, as `optimizer.learning_rate`."""


@dataclass(frozen=True)
class Table:
    """What is known of a table."""

    name: str
    title: str
    source: str
    url: str
    note: str
    """How ours differs from the published setting."""
    shown: str
    columns: dict[str, Column]
    published: dict[str, dict[str, float]]
    """Row -> column -> figure."""
    orderings: tuple[Ordering, ...]
    commands: dict[str, Options]
    make: dict[str, Options]
    tasks: dict[str, Options]
    rows: dict[str, Options]
    column_options: dict[str, Options]
    every_column: Options

    def command(self, column: str, row: str | None = None) -> Options:
        """Return the options of a column, for a row: those of its command included."""
        own = self.column_options[column]
        task = str({"task": column, **self.every_column, **own}["task"])
        of_row = {} if row is None else self.rows[row]
        options = {**self.tasks.get(task, {}), **self.every_column, **of_row, **own}
        return {**derived(options, self.commands), "task": task}


def table_names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all tables."""
    return sorted(path.parent.name for path in folder.glob("*/table.toml"))


def read_table(name: str, folder: Path = FOLDER) -> Table:
    """Return a table as its file describes it.

    Raises:
        ValueError: the file lacks a key, or an ordering names a row or column that is nowhere.
    """
    path = folder / name / "table.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    shared = tomllib.loads((folder / "shared.toml").read_text(encoding="utf-8"))
    for key in ("title", "source", "url", "shown", "orderings", "rows", "columns"):
        if not content.get(key):
            raise ValueError(f"{path} has no {key}")
    names = {*BUDGETS, *content["rows"]}
    parts = {
        part: _by_name(names, shared.get(part, {}), content.get(part, {}))
        for part in ("commands", "make", "tasks", "rows", "columns")
    }
    orderings = []
    rows = {*content.get("published", {}), *content["rows"]}
    for entry in content["orderings"]:
        for column in entry["columns"]:
            for better, worse in pairwise(entry["best_first"]):
                if column not in parts["columns"] or not {better, worse} <= rows:
                    known = ", ".join([*parts["columns"], *sorted(rows)])
                    raise ValueError(
                        f"{path}: an ordering of {better!r} and {worse!r} in {column!r}, but the "
                        f"columns and rows are {known}"
                    )
                orderings.append(Ordering(column, better, worse, entry.get("claim", "")))
    table = Table(
        name=name,
        title=content["title"],
        source=content["source"],
        url=content["url"],
        note=content.get("note", ""),
        shown=content["shown"],
        columns={},
        published=content.get("published", {}),
        orderings=tuple(orderings),
        commands=parts["commands"],
        make=parts["make"],
        tasks=parts["tasks"],
        rows=parts["rows"],
        column_options=parts["columns"],
        every_column=_flat(names, content.get("every_column", {})),
    )
    for column in parts["columns"]:
        options = table.command(column)
        table.columns[column] = Column(**{key: options[key] for key in COLUMN if key in options})
    return table


def derived(options: Mapping[str, Any], commands: Mapping[str, Options]) -> Options:
    """Return options with those of the commands that `run` derives from; `run` becomes a verb."""
    found = dict(options)
    base: Mapping[str, Any] = options
    while "run" in base and base["run"] in commands:
        found["run"] = base["run"]
        base = commands[base["run"]]
        found = {**base, **found}
    return {**found, "run": base["run"]} if "run" in base else found


def _by_name(names: set[str], *layers: Mapping[str, Any]) -> dict[str, Options]:
    """Return the entries of a section by name; the later of two layers replaces keys."""
    found: dict[str, Options] = {}
    for layer in layers:
        for name, entry in layer.items():
            found.setdefault(name, {}).update(_flat(names, entry))
    return found


def _flat(names: set[str], entry: Mapping[str, Any], section: str = "") -> Options:
    """Return an entry with its sections written as dots.

    A table whose keys are among `names` is no section, but a value for each budget or row.
    """
    found: Options = {}
    for key, value in entry.items():
        if isinstance(value, dict) and not value.keys() <= names:
            found |= _flat(names, value, f"{section}{key}.")
        else:
            found[section + key] = value
    return found


def results_path(name: str, folder: Path = FOLDER) -> Path:
    """Return where the results of a table are kept."""
    return folder / name / "results.jsonl"


def read_results(name: str, folder: Path = FOLDER) -> dict[str, Results]:
    """Return what was measured of a table, by budget; empty if nothing was."""
    path = results_path(name, folder)
    found: dict[str, Results] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        line = json.loads(text)
        if "row" not in line:
            found[line["budget"]] = Results(line, [])
            continue
        before = found[line["budget"]]
        rows = [
            figure_row(line["row"], line["column"], seed, value)
            for seed, value in enumerate(line["values"], 1)
        ]
        found[line["budget"]] = Results(before.facts, [*before.rows, *rows])
    return found


def figure_row(row: str, column: str, seed: int, value: float) -> Row:
    """Return a figure of a table as a row of results."""
    return Row(measure=column, system=row, title=row, seed=seed, value=value)


def write_results(name: str, results: Mapping[str, Results], folder: Path = FOLDER) -> None:
    """Replace what was measured of a table."""
    lines: list[Mapping[str, Any]] = []
    for budget, of_budget in results.items():
        lines.append(of_budget.facts)
        for row, column in dict.fromkeys((each.system, each.measure) for each in of_budget.rows):
            values = values_of(of_budget, row, column)
            lines.append({"budget": budget, "row": row, "column": column, "values": values})
    with atomic_file(results_path(name, folder), overwrite=True) as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def values_of(results: Results, row: str, column: str) -> Sequence[float | None]:
    """Return the values of a figure, one for each seed."""
    return [each.value for each in results.find(system=row, measure=column)]
