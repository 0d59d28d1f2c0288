"""Progress of long work on standard error: lines, and bars with the rate and the time left.

The verbs of the command line and the functions of `import bertwright` show progress through this
file. On a terminal rich draws a bar. Anywhere else (a log file, CI) a plain line is written every
half minute, so that work that ends sooner writes nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bertwright.progress import OnProgress, clock, silent

SECONDS_BETWEEN_LINES = 30.0


def say(message: str) -> None:
    """Print one line on standard error, apart from results.

    If standard error cannot be written (a closed terminal, a full disk), the line is lost and the
    work continues.
    """
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


@contextmanager
def bar(label: str, unit: str = "", lines: bool = True) -> Iterator[OnProgress]:
    """Show the progress of the block, and give it the callable to report its progress to.

    `unit` names what is counted ("documents"); "bytes" are shown as MB. With `lines=False` nothing
    is written where there is no terminal, for work that writes a log of its own.

        with bar("Reading", "bytes") as on_progress:
            train_vocabulary(..., on_progress=on_progress)
    """
    if not sys.stderr.isatty():
        yield _written(label, _Advance(unit)) if lines else silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        task = progress.add_task(label, total=None, state="", visible=False)
        advance = _Advance(unit)

        def draw(done: int, total: int | None) -> None:
            state = advance.describe(done, total, time.monotonic())
            progress.update(task, completed=done, total=total, state=state, visible=done != total)

        yield draw


OnStep = Callable[[str, float, float, float], None]
"""Called before each step with its name, the seconds that it may take at most, the seconds of the
steps before it, and the seconds of all steps; called after the last step with an empty name."""


@contextmanager
def step_bars(label: str) -> Iterator[OnStep]:
    """Show the progress of work whose steps have known maximum times.

    On a terminal, one bar shows the whole work and one the present step. Elsewhere, a line is
    written at most every half minute.
    """
    if not sys.stderr.isatty():
        yield _written_steps(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    now = _Step()

    class Clocked(Progress):
        """Bars that advance with the clock."""

        def get_renderables(self) -> Iterable[Any]:
            """Draw both bars as they are now."""
            for task, (done, total) in zip(self.task_ids, (now.all(), now.own()), strict=False):
                left = f"at most {clock(max(0.0, total - done))} left"
                self.update(task, completed=done, total=total, state=left)
            if len(self.task_ids) > 1:
                self.update(self.task_ids[1], description=now.name, visible=bool(now.name))
            yield from super().get_renderables()

    columns = (BarColumn(), TextColumn("{task.fields[state]}  {task.description}"))
    console = Console(file=sys.stderr)
    with Clocked(*columns, console=console, transient=True, refresh_per_second=2) as progress:
        for name in (label, ""):
            progress.add_task(name, total=None, state="")
        yield now.begin


class _Step:
    """The present step and the time at which it began."""

    def __init__(self) -> None:
        self.begin("", 0.0, 0.0, 1.0)

    def begin(self, name: str, seconds: float, done: float, total: float) -> None:
        self.name, self.seconds, self.done, self.total = name, seconds, done, total
        self.began = time.monotonic()

    def own(self) -> tuple[float, float]:
        """Return the seconds spent in the step, at most those it may take, and the latter."""
        return min(self.seconds, time.monotonic() - self.began), max(self.seconds, 1e-9)

    def all(self) -> tuple[float, float]:
        """Return the seconds of the steps so far, and the seconds that all steps may take."""
        return self.done + self.own()[0] * bool(self.name), max(self.total, 1e-9)


def _written_steps(label: str) -> OnStep:
    """Return a callable that writes the present step as a line, every half minute at most."""
    last = time.monotonic()

    def write(name: str, seconds: float, done: float, total: float) -> None:
        nonlocal last
        if name and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            part = f"{100 * done / max(total, 1e-9):.0f} %"
            say(f"{label}: {part}, at most {clock(total - done)} left; now {name}")

    return write


def _written(label: str, advance: _Advance) -> OnProgress:
    """Return a callable that writes the progress as a line every half minute."""
    last = time.monotonic()

    def write(done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        state = advance.describe(done, total, now)
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            say(f"{label}: {state}")

    return write


class _Advance:
    """The progress of work since its first report.

    The rate is measured from the first report: the time before it, in which a model is loaded, and
    the units of an interrupted run that is resumed are not part of the rate.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.first: tuple[int, float] | None = None

    def describe(self, done: int, total: int | None, now: float) -> str:
        before, begin = self.first = self.first or (done, now)
        return describe(done, total, now - begin, self.unit, before)


def describe(done: int, total: int | None, seconds: float, unit: str = "", before: int = 0) -> str:
    """Return `2,000 of 8,000 documents (25 %), 100/s, 1:00 left`.

    Args:
        done: units done so far.
        total: units in all, if known.
        seconds: time since the first report.
        unit: what is counted.
        before: units that were done at the first report.
    """
    rate = (done - before) / seconds if seconds > 0 else 0.0
    speed = f"{rate:,.0f}/s" if rate >= 1000 else f"{rate:,.3g}/s"
    amounts, what = [f"{done:,}", f"{total or 0:,}"], f" {unit}".rstrip()
    if unit == "bytes":
        amounts, what = [f"{each / 1e6:,.1f}" for each in (done, total or 0)], " MB"
        speed = f"{rate / 1e6:.1f} MB/s"
    parts = [amounts[0] + what]
    if total:
        parts = [f"{' of '.join(amounts)}{what} ({100 * done / total:.0f} %)"]
    if rate > 0:
        parts.append(speed)
    if rate > 0 and total:
        parts.append(f"{clock(max(total - done, 0) / rate)} left")
    return ", ".join(parts)
