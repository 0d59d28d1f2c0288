"""The tables of the literature: ours beside the published, and which orderings hold.

    python experiments/reproduce.py                  the tables, and what is measured of each
    python experiments/reproduce.py TABLE [--budget small|gpu] [--seeds 2] [--data DIR]
        [--out runs/tables] [--minutes 90] [--rerun] [--dry-run] [--hardware TEXT]

TABLE is a folder of `experiments/tables`. What has been measured is in its `results.json`, with
its date, and is shown. A table without results, or with `--rerun`, is measured by the commands of
its `commands.toml`, which are all commands of `bertwright`, and `results.json` is written;
`--dry-run` prints the commands. Runs are in OUT/TABLE-BUDGET: what is finished there is not run
again, so an interrupted table goes on, and another `--out` begins anew.

DIR has the files that the commands name (`glue/SST-2`, `corpora/english-1.txt.xz`, ...); columns
whose files are not there are left out by name. `small` ends after `--minutes` on two cores; `gpu`
has the sizes of the papers as far as the recipes allow.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables.orderings import Verdict, judge, mean_and_sd
from tables.plan import make_plan, rows_of
from tables.run import execute, shown
from tables.table import (
    BUDGETS,
    Table,
    read_results,
    read_table,
    table_names,
    write_results,
)

HEADINGS: dict[Verdict, str] = {
    "held": "Orderings that held",
    "not held": "Orderings that did not hold",
    "undecided": "Orderings that this budget cannot decide",
}


def main() -> None:
    """Show the tables, or measure one and show it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", nargs="?", metavar="TABLE", choices=table_names())
    parser.add_argument("--budget", choices=BUDGETS, default="small")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--out", type=Path, default=Path("runs/tables"))
    parser.add_argument("--minutes", type=float, help="of a table; small: 90, gpu: no limit")
    parser.add_argument("--rerun", action="store_true", help="measure what has been measured")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    parser.add_argument("--hardware", help="what to write of the machine, in place of its name")
    given = parser.parse_args()
    if given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}, but at least one is needed")
    if given.table is None:
        print_tables()
        return
    table = read_table(given.table)
    results = read_results(table.name)
    known = results.get(given.budget)
    if given.dry_run or given.rerun or known is None or not known.get("complete", True):
        if not given.data.is_dir():
            parser.error(f"there is no folder {given.data}: name the one of the data with --data")
        measure(table, given, results, parser)
    if not given.dry_run:
        print_table(table, read_results(table.name)[given.budget], given.budget)


def default_data() -> Path:
    """Return the folder of the data: BERTWRIGHT_SHARED/data, else data."""
    shared = os.environ.get("BERTWRIGHT_SHARED")
    return Path(shared) / "data" if shared else Path("data")


def measure(
    table: Table,
    given: argparse.Namespace,
    results: dict[str, Any],
    parser: argparse.ArgumentParser,
) -> None:
    """Measure a table and keep its results, or print what would be done."""
    out = given.out / f"{table.name}-{given.budget}"
    try:
        plan = make_plan(table, given.budget, given.data, out, given.seeds)
    except ValueError as error:
        parser.error(str(error))
    if given.dry_run:
        print("\n".join(shown(plan)))
        return
    limit = given.minutes or (90.0 if given.budget == "small" else None)
    deadline = None if limit is None else time.monotonic() + 60 * limit
    began = time.monotonic()
    entry: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["python", "experiments/reproduce.py", *sys.argv[1:]]),
        "hardware": given.hardware or f"{platform.machine()}, {os.cpu_count()} processors",
        "seeds": given.seeds,
        "settings": table.commands.get(given.budget, {}),
        "left_out": {name: why.split(" in ")[0] for name, why in plan.left_out.items()},
    }

    def keep(figures: dict[str, dict[str, list[float]]], complete: bool = False) -> None:
        state = {"complete": complete, "minutes": round((time.monotonic() - began) / 60, 1)}
        results[given.budget] = {**entry, **state, "figures": figures}
        write_results(table.name, results)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if execute(plan, deadline, say, keep):
        keep(results[given.budget]["figures"], complete=True)
    elif given.budget in results:
        say(f"ended after {limit:g} minutes: the same command goes on")
    else:
        sys.exit(f"no figure after {limit:g} minutes: the same command goes on")


def print_tables() -> None:
    """Print each table with its title and what is measured."""
    for name in table_names():
        table = read_table(name)
        measured = [
            f"{budget} {entry['date']}" for budget, entry in sorted(read_results(name).items())
        ]
        print(f"{name:18}{table.title} ({table.source}): {', '.join(measured) or 'not measured'}")


def print_table(table: Table, entry: dict[str, Any], budget: str) -> None:
    """Print ours beside the published, then the orderings by what became of them."""
    print(f"{table.title}\n  published: {table.source}, {table.url}")
    print(f"  ours: budget {budget}, {entry['date']}, {entry['hardware']}")
    print(f"        {entry['command']}")
    for note in (table.note, entry.get("note", "")):
        if note:
            print(f"  {note}")
    if not entry.get("complete", True):
        print("  not complete: the time was over")
    print(f"  what would count as shown: {table.shown}")
    figures, left_out = entry["figures"], entry.get("left_out", {})
    rows = list(dict.fromkeys([*table.published, *figures]))
    width = max(map(len, rows)) + 2
    for name, column in table.columns.items():
        lines = [
            (row, figures.get(row, {}).get(name, []), table.published.get(row, {}).get(name))
            for row in rows
        ]
        lines = [line for line in lines if line[1] or line[2] is not None]
        if not lines or name in left_out:
            continue
        print(f"\n{name}, {column.metric}")
        print(f"  {'':{width}}{'ours':>20}{'published':>14}")
        for row, ours, published in lines:
            beside = "-" if published is None else f"{published:g}"
            print(f"  {row:{width}}{mean_and_sd(ours):>20}{beside:>14}")
    by_verdict: dict[Verdict, list[str]] = defaultdict(list)
    measured = {*rows_of(table, budget), *figures}
    for ordering in table.orderings:
        if ordering.column in left_out or not {ordering.better, ordering.worse} <= measured:
            continue
        verdict, why = judge(ordering, table.columns[ordering.column], figures)
        by_verdict[verdict].append(
            f"{ordering.column}: {ordering.better} over {ordering.worse} ({why})"
        )
    for key, heading in HEADINGS.items():
        print(f"\n{heading}: {len(by_verdict[key])}")
        for line in by_verdict[key]:
            print(f"  {line}")
    if left_out:
        print("\nLeft out")
        for name, why in left_out.items():
            print(f"  {name}: {why}")


if __name__ == "__main__":
    main()
