"""Doing what a plan says; what is finished in the folder of the runs is not done again."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables.cut import cut_file, cut_parallel
from tables.plan import Cell, DataCut, Plan

Say = Callable[[str], None]
Deadline = float | None
"""A time of `time.monotonic`; None: there is none."""


class OutOfTimeError(Exception):
    """The budget is used up before the next command."""


def shown(plan: Plan) -> list[str]:
    """Return everything that would be done, as lines for a shell."""
    lines = []
    for cut in plan.cuts:
        part = f"{cut.shortest} to {cut.longest} words" if len(cut.sources) > 1 else cut.take
        count = f"{cut.count:,} " if cut.count else "" if len(cut.sources) > 1 else "all "
        names = ", ".join(path.name for path in cut.sources)
        lines.append(f"# {count}{part} of {names}: {', '.join(map(str, cut.targets))}")
    lines += [_line(step.words) for step in plan.steps]
    printed: set[str] = set()
    for cell in plan.cells:
        for words in cell.commands:
            line = _line(words)
            if line not in printed:
                printed.add(line)
                lines.append(line)
    lines += [f"# left out: {name}: {why}" for name, why in plan.left_out.items()]
    return lines


def execute(
    plan: Plan,
    deadline: Deadline,
    say: Say,
    keep: Callable[[dict[str, dict[str, list[float]]]], None],
) -> bool:
    """Do what is not done, and pass all figures to `keep` whenever there is one more.

    Args:
        plan: what is to be done.
        deadline: no command starts after it.
        say: told of each command.
        keep: receives row -> column -> figures by seed.

    Returns:
        Whether everything was measured; false if the deadline came first.
    """
    for cut in plan.cuts:
        _cut(cut)
    figures: dict[str, dict[str, list[float]]] = {}
    try:
        for step in plan.steps:
            if not step.done.exists():
                _run(step.words, deadline, say)
                step.done.parent.mkdir(parents=True, exist_ok=True)
                step.done.touch()
        for cell in plan.cells:
            value = _figure(cell, deadline, say)
            figures.setdefault(cell.row, {}).setdefault(cell.column, []).append(value)
            keep(figures)
    except OutOfTimeError:
        return False
    return True


def _cut(cut: DataCut) -> None:
    if len(cut.sources) > 1:
        sources, targets = (cut.sources[0], cut.sources[1]), (cut.targets[0], cut.targets[1])
        cut_parallel(sources, targets, cut.shortest, cut.longest)
    else:
        cut_file(cut.take, cut.sources[0], cut.targets[0], cut.count, cut.shuffle)


def _figure(cell: Cell, deadline: Deadline, say: Say) -> float:
    if not cell.log and not cell.output.exists():
        printed = ""
        for words in cell.commands:
            printed = _run(words, deadline, say)
        cell.output.parent.mkdir(parents=True, exist_ok=True)
        cell.output.write_text(printed, encoding="utf-8")
    found = _last_held_out(cell.output) if cell.log else json.loads(cell.output.read_text("utf-8"))
    value = _at(found, cell)
    return round(cell.scale * (math.exp(value) if cell.exponential else value), 4)


def _last_held_out(log: Path) -> Any:
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return [record for record in records if record["split"] == "dev"][-1]


def _at(found: Any, cell: Cell) -> float:
    """The number at a path such as `metrics/accuracy` or `models/0/accuracy/1`."""
    value = found
    for key in [cell.read] if cell.log else cell.read.split("/"):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return float(value)


def _run(words: list[str], deadline: Deadline, say: Say) -> str:
    """What a command of `bertwright` prints.

    Raises:
        OutOfTimeError: the deadline is over.
        SystemExit: the command failed, with its exit code.
    """
    if deadline is not None and time.monotonic() > deadline:
        raise OutOfTimeError
    from bertwright.cli.app import run

    say(_line(words))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run(words)
    if status:
        say(f"failed with exit code {status}: {_line(words)}")
        raise SystemExit(status)
    return out.getvalue()


def _line(words: list[str]) -> str:
    return shlex.join(["bertwright", *words])
