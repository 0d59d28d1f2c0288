"""What has to be done for a table: parts of files, commands, and where the figures are.

`commands.toml` has

- `[common]`, `[small]`, `[gpu]`: values that replace `{name}` in the texts below. Always there are
  `{data}` and `{out}` (folders), `{files}` (the folder of cut files), `{seed}`, and in a column's
  commands `{cell}`, a folder of their own. `package` is a Python package, `{package}` its folder.
- `[[data]]`: `makes` a file in `{files}` `from` a file in DATA: `take` (see `cut.TAKES`), `count`,
  `shuffle`. A list of two files: those pairs whose first sentence has `shortest` to `longest`
  words. A file that is not in DATA is left out with the columns that need it.
- `[[steps]]`: a command of `bertwright`, `run`, which `makes` something in `{out}`. One that
  names `{seed}` there is run for each seed. `rows`: only if one of these is measured; `needs`:
  only if these files are in DATA.
- `[rows."..."]`: values of a row; `budget`: only there; `package`: what it needs.
- `[columns."..."]`: `needs`, files in DATA; `run`, commands of which the last prints JSON; `read`,
  the path to the figure in it (`metrics/accuracy`); `scale` (100 for percent). In place of `run`,
  `file`: the log of a run, whose last held-out record is read. `exponential`: of the figure.
  `unseeded`: the figure has no seeds. `cell`: a name that columns with the same commands share.
  `rows`: only these. `values`: of the column. `budget`: only there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tables.table import Table


@dataclass(frozen=True)
class DataCut:
    """A part of a file (or of two parallel ones) to write."""

    take: str
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]
    count: int = 0
    shuffle: bool = False
    shortest: int = 0
    longest: int = 0


@dataclass(frozen=True)
class Step:
    """A command of `bertwright`, and the file that is written when it is done."""

    words: list[str]
    done: Path


@dataclass(frozen=True)
class Cell:
    """A figure: its commands, and where it is found."""

    row: str
    column: str
    seed: int
    commands: list[list[str]]
    output: Path
    """What the last command prints, kept as JSON; with `log` the log of a run."""
    read: str
    scale: float = 1.0
    exponential: bool = False
    log: bool = False


@dataclass(frozen=True)
class Plan:
    """Everything that is done for a table at a budget, in its order."""

    cuts: list[DataCut]
    steps: list[Step]
    cells: list[Cell]
    left_out: dict[str, str] = field(default_factory=dict)
    """Column or row -> why it is not measured."""


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Return a text with its `{names}` replaced, also those inside the values."""
    for _ in range(5):
        if "{" not in text:
            break
        text = text.format_map(values)
    return text


def slug(text: str) -> str:
    """Return a text as a name for a file."""
    return re.sub(r"\W+", "-", text).strip("-").lower()


def make_plan(table: Table, budget: str, data: Path, out: Path, seeds: int) -> Plan:
    """Return what is to be done, with columns left out whose data are not there.

    Raises:
        ValueError: nothing is left, or a file that every column needs is not there.
    """
    given = table.commands
    values: dict[str, Any] = {**given.get("common", {}), **given.get(budget, {})}
    values |= {"data": data, "out": out, "files": out / "files"}
    left_out: dict[str, str] = {}
    if "package" in values:
        values["package"] = package_folder(values["package"])
    columns = {}
    for name in table.columns:
        entry = given["columns"].get(name)
        if entry is None:
            left_out[name] = "no command of ours makes it"
            continue
        if entry.get("budget", budget) != budget:
            left_out[name] = f"it is for the budget {entry['budget']}"
            continue
        lacking = [need for need in entry.get("needs", []) if not (data / need).exists()]
        if lacking:
            left_out[name] = f"no {', '.join(lacking)} in {data}"
        else:
            columns[name] = entry
    if not columns:
        raise ValueError(
            f"{table.name}: no column can be measured: "
            + "; ".join(f"{name}: {why}" for name, why in left_out.items())
        )
    rows = {}
    for name in rows_of(table, budget):
        entry = given["rows"][name]
        if "package" in entry and find_spec(entry["package"]) is None:
            left_out[name] = f"it needs the package {entry['package']}"
        else:
            rows[name] = entry
    cells = [
        cell
        for seed in range(1, seeds + 1)
        for row, of_row in rows.items()
        for column, of_column in columns.items()
        if row in of_column.get("rows", rows) and (seed == 1 or not of_column.get("unseeded"))
        for cell in [_cell(row, column, seed, {**values, **of_row}, of_column)]
    ]
    cuts, missing = _cuts(given, values, data)
    steps = _steps(given, values, seeds, rows)
    for step in steps:
        for word in step.words:
            if word in missing:
                raise ValueError(f"{table.name} needs {missing[word]}, which is not there")
    return Plan(cuts, steps, cells, left_out)


def rows_of(table: Table, budget: str) -> list[str]:
    """Return the rows that are measured at a budget."""
    entries = table.commands["rows"].items()
    return [name for name, entry in entries if entry.get("budget", budget) == budget]


def package_folder(name: str) -> Path:
    """Return the folder of a Python package; a name in capitals where it is not installed."""
    spec = find_spec(name)
    return Path(name.upper()) if spec is None or spec.origin is None else Path(spec.origin).parent


def _cuts(
    given: Mapping[str, Any], values: Mapping[str, Any], data: Path
) -> tuple[list[DataCut], dict[str, str]]:
    """The parts of files, and those that cannot be made: target -> what is missing."""
    cuts: list[DataCut] = []
    missing: dict[str, str] = {}
    for entry in given.get("data", []):
        sources, made = entry["from"], entry["makes"]
        source_list = [sources] if isinstance(sources, str) else sources
        made_list = [made] if isinstance(made, str) else made
        paths = tuple(data / source for source in source_list)
        targets = tuple(values["files"] / name for name in made_list)
        lacking = [str(path) for path in paths if not path.exists()]
        if "package" in entry and find_spec(entry["package"]) is None:
            lacking.append(f"the package {entry['package']}")
        if lacking:
            missing.update(dict.fromkeys(map(str, targets), ", ".join(lacking)))
            continue
        cut = DataCut(
            take=entry.get("take", "pairs"),
            sources=paths,
            targets=targets,
            count=int(fill(str(entry.get("count", 0)), values)),
            shuffle=entry.get("shuffle", False),
            shortest=entry.get("shortest", 0),
            longest=entry.get("longest", 0),
        )
        cuts.append(cut)
    return cuts, missing


def _steps(
    given: Mapping[str, Any], values: Mapping[str, Any], seeds: int, rows: Mapping[str, Any]
) -> list[Step]:
    steps = []
    for seed in range(1, seeds + 1):
        for entry in given.get("steps", []):
            seeded = "{seed}" in entry["makes"]
            if (seed > 1 and not seeded) or not set(entry.get("rows", rows)) & set(rows):
                continue
            if not all((values["data"] / need).exists() for need in entry.get("needs", [])):
                continue
            known = {**values, "seed": seed}
            done = values["out"] / "done" / slug(fill(entry["makes"], known))
            steps.append(Step(shlex.split(fill(entry["run"], known)), done))
    return steps


def _cell(row: str, column: str, seed: int, values: dict[str, Any], entry: Any) -> Cell:
    values = {**values, **entry.get("values", {}), "seed": seed, "row": row}
    name = fill(entry.get("cell", f"{column}-{row}-{seed}"), values)
    folder = values["out"] / "cells" / slug(name)
    values["cell"] = folder
    log = "file" in entry
    return Cell(
        row=row,
        column=column,
        seed=seed,
        commands=[shlex.split(fill(command, values)) for command in entry.get("run", [])],
        output=Path(fill(entry["file"], values)) if log else folder.with_suffix(".json"),
        read=fill(entry["read"], values),
        scale=entry.get("scale", 1.0),
        exponential=entry.get("exponential", False),
        log=log,
    )
