"""Measuring the figures of a plan. Finished steps are kept in the folder of the runs.

The folder has `steps.jsonl`, as that of a comparison has (`recipes/compare/steps.py`): a step is
done again only if what it depends on has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tables.cut import Part
from tables.plan import Figure, Plan, Step
from tables.table import figure_row

from bertwright.atomic import held, sha256_file
from bertwright.cli.app import run
from bertwright.recipes.compare.steps import Done, Finished
from bertwright.report.comparison.rows import Row

Say = Callable[[str], None]
Deadline = float | None
"""A time of `time.monotonic`; None: there is none."""


class OutOfTimeError(Exception):
    """The budget is used up before the next step."""


def execute(
    plan: Plan, out: Path, deadline: Deadline, say: Say, keep: Callable[[Sequence[Row]], None]
) -> bool:
    """Measure the figures, and return whether all were measured before the deadline.

    Args:
        plan: what is to be done.
        out: the folder of the plan's runs.
        deadline: no step begins after it.
        say: prints each command.
        keep: receives all figures so far whenever there is one more.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with held(out, "measuring in"):
        finished = Finished(out)
        try:
            for figure in plan.figures:
                for step in figure.step.in_order():
                    _do(step, finished, deadline, say)
                rows.append(_row(figure, finished))
                keep(rows)
        except OutOfTimeError:
            return False
    return True


def _do(step: Step, finished: Finished, deadline: Deadline, say: Say) -> None:
    """Do a step that is not done.

    Raises:
        OutOfTimeError: the deadline is over.
        SystemExit: the command failed, with its exit code.
    """
    if finished.find(step.name, key_of(step)) is not None:
        return
    if deadline is not None and time.monotonic() > deadline:
        raise OutOfTimeError
    say(step.shown)
    facts = {}
    if isinstance(step.do, Part):
        step.do.write(step.path)
    else:
        step.path.parent.mkdir(exist_ok=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = run(list(step.do))
        if status:
            say(f"failed with exit code {status}: {step.shown}")
            raise SystemExit(status)
        if step.prints:
            facts = {"printed": json.loads(printed.getvalue())}
    finished.keep(step.name, key_of(step), Done(facts=facts))


@cache
def key_of(step: Step) -> str:
    """Return a hash of everything that the result of a step depends on."""
    reads = [sha256_file(path) for path in step.reads]
    content = [step.options, reads, [key_of(need) for need in step.needs]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _row(figure: Figure, finished: Finished) -> Row:
    """Return a figure whose step is done."""
    options, step = figure.options, figure.step
    value: Any
    if "log" in options:
        log = (step.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        held_out = [line for line in map(json.loads, log) if line["split"] == "dev"]
        value = held_out[-1][options["log"]]
    else:
        done = finished.find(step.name, key_of(step))
        assert done is not None
        value = done.facts["printed"]
        for key in options["read"].split("/"):
            value = value[int(key)] if isinstance(value, list) else value[key]
    if options.get("exponential"):
        value = math.exp(value)
    value = round(options.get("scale", 1) * value, 4)
    return figure_row(figure.row, figure.column, figure.seed, value)
