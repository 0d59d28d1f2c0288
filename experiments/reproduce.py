"""The tables of the literature: ours beside the published, and which orderings hold.

    python experiments/reproduce.py                  the tables, and what is measured of each
    python experiments/reproduce.py TABLE [--budget small|gpu] [--seeds 2] [--data DIR]
        [--out runs/tables] [--minutes 90] [--rerun] [--dry-run] [--hardware TEXT]

TABLE is a folder of `experiments/tables`. What has been measured is in its `results.jsonl`, with
its date, and is printed. A table without results, or with `--rerun`, is measured as its
`table.toml` says, by commands of `bertwright`, and `results.jsonl` is written; `--dry-run` prints
the commands. Runs are in OUT/TABLE-BUDGET: what is finished there is not run again, so the same
command continues an interrupted table, and another `--out` begins from scratch.

DIR has the files that the table names (`glue/SST-2`, `corpora/english-1.txt.xz`, ...); columns
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
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tables.orderings import Verdict, judge, mean_and_sd
from tables.plan import make_plan, rows_of
from tables.table import (
    BUDGETS,
    Table,
    read_results,
    read_table,
    table_names,
    write_results,
)

from bertwright.report.comparison.rows import Results, Row

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
    if given.dry_run or given.rerun or known is None or not known.facts.get("complete", True):
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
    results: dict[str, Results],
    parser: argparse.ArgumentParser,
) -> None:
    """Measure a table and write its results, or print what would be done."""
    out = given.out / f"{table.name}-{given.budget}"
    try:
        plan = make_plan(table, given.budget, given.data, out, given.seeds)
    except ValueError as error:
        parser.error(str(error))
    if given.dry_run:
        print("\n".join(plan.shown))
        return
    from tables.run import execute  # imports torch

    limit = given.minutes or (90.0 if given.budget == "small" else None)
    deadline = None if limit is None else time.monotonic() + 60 * limit
    began = time.monotonic()
    facts = {
        "budget": given.budget,
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["python", "experiments/reproduce.py", *sys.argv[1:]]),
        "hardware": given.hardware or f"{platform.machine()}, {os.cpu_count()} processors",
        "seeds": given.seeds,
        "left_out": plan.left_out,
    }

    def keep(rows: Sequence[Row]) -> None:
        state = {
            "complete": len(rows) == len(plan.figures),
            "minutes": round((time.monotonic() - began) / 60, 1),
        }
        results[given.budget] = Results(facts | state, rows)
        write_results(table.name, results)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if not execute(plan, out, deadline, say, keep):
        if given.budget not in results:
            sys.exit(f"no figure after {limit:g} minutes: the same command continues")
        say(f"ended after {limit:g} minutes: the same command continues")


def print_tables() -> None:
    """Print each table with its title and what is measured."""
    for name in table_names():
        table = read_table(name)
        measured = [
            f"{budget} {results.facts['date']}"
            for budget, results in sorted(read_results(name).items())
        ]
        print(f"{name:18}{table.title} ({table.source}): {', '.join(measured) or 'not measured'}")


def print_table(table: Table, results: Results, budget: str) -> None:
    """Print ours beside the published, then the orderings by what became of them."""
    facts = results.facts
    print(f"{table.title}\n  published: {table.source}, {table.url}")
    print(f"  ours: budget {budget}, {facts['date']}, {facts['hardware']}")
    print(f"        {facts['command']}")
    for note in (table.note, facts.get("note", "")):
        if note:
            print(f"  {note}")
    if not facts.get("complete", True):
        print("  not complete: the time was over")
    print(f"  what would count as shown: {table.shown}")
    left_out = facts.get("left_out", {})
    rows = list(dict.fromkeys([*table.published, *(row.system for row in results.rows)]))
    width = max(map(len, rows)) + 2
    for name, column in table.columns.items():
        lines = [
            (row, results.mean(system=row, measure=name), table.published.get(row, {}).get(name))
            for row in rows
        ]
        lines = [line for line in lines if line[1] is not None or line[2] is not None]
        if not lines or name in left_out:
            continue
        print(f"\n{name}, {column.figure}")
        print(f"  {'':{width}}{'ours':>20}{'published':>14}")
        for row, ours, published in lines:
            beside = "-" if published is None else f"{published:g}"
            print(f"  {row:{width}}{mean_and_sd(ours):>20}{beside:>14}")
    by_verdict: dict[Verdict, list[str]] = defaultdict(list)
    measured = {*rows_of(table, budget), *(row.system for row in results.rows)}
    for ordering in table.orderings:
        if ordering.column in left_out or not {ordering.better, ordering.worse} <= measured:
            continue
        verdict, why = judge(ordering, table.columns[ordering.column], results)
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
