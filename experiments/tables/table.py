"""A table of the literature: the published figures, our commands, and our results.

A folder of `experiments/tables` holds

- `expected.json`: title, source and url; `columns` (see `orderings.Column`); `published` figures by
  row and column; `orderings`, each a list of rows, `best_first`, for some columns; `shown`, what
  would count as shown at the small budget;
- `commands.toml`: how ours are made (see `plan`);
- `results.json`, where ours are measured: an entry a budget.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tables.orderings import Column, Ordering

FOLDER = Path(__file__).parent
BUDGETS = ("small", "gpu")


@dataclass(frozen=True)
class Table:
    """What is known of a table.

    Attributes:
        name: of its folder.
        title: what it is about.
        source: the paper and the number of its table.
        url: where the paper is.
        note: how ours differs from the published setting.
        shown: what would count as shown at the small budget.
        columns: by name.
        published: row -> column -> figure.
        orderings: the published claims.
        commands: the content of `commands.toml`.
    """

    name: str
    title: str
    source: str
    url: str
    note: str
    shown: str
    columns: dict[str, Column]
    published: dict[str, dict[str, float]]
    orderings: tuple[Ordering, ...]
    commands: dict[str, Any]


def table_names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all tables."""
    return sorted(path.parent.name for path in folder.glob("*/expected.json"))


def read_table(name: str, folder: Path = FOLDER) -> Table:
    """Return a table as its files describe it.

    Raises:
        ValueError: a file lacks a key, or an ordering names a row or column that is nowhere.
    """
    path = folder / name / "expected.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for key in ("title", "source", "url", "shown", "columns", "published", "orderings"):
        if not content.get(key):
            raise ValueError(f"{path} has no {key}")
    commands = tomllib.loads((folder / name / "commands.toml").read_text(encoding="utf-8"))
    columns = {key: Column(**value) for key, value in content["columns"].items()}
    rows = {*content["published"], *commands["rows"]}
    orderings = []
    for entry in content["orderings"]:
        for column in entry["columns"]:
            for better, worse in pairwise(entry["best_first"]):
                if column not in columns or not {better, worse} <= rows:
                    raise ValueError(
                        f"{path}: an ordering of {better!r} and {worse!r} in {column!r}, but the "
                        f"columns are {', '.join(columns)} and the rows {', '.join(sorted(rows))}"
                    )
                orderings.append(Ordering(column, better, worse, entry.get("claim", "")))
    for key in commands["columns"]:
        if key not in columns:
            raise ValueError(f"{folder / name}: expected.json has no column {key!r}")
    return Table(
        name=name,
        title=content["title"],
        source=content["source"],
        url=content["url"],
        note=content.get("note", ""),
        shown=content["shown"],
        columns=columns,
        published=content["published"],
        orderings=tuple(orderings),
        commands=commands,
    )


def results_path(name: str, folder: Path = FOLDER) -> Path:
    """Return where the results of a table are kept."""
    return folder / name / "results.json"


def read_results(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return what was measured of a table, by budget; empty if nothing was."""
    path = results_path(name, folder)
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_results(name: str, results: dict[str, Any], folder: Path = FOLDER) -> None:
    """Replace what was measured of a table."""
    path = results_path(name, folder)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)
