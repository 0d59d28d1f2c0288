"""Progress bars out of `OnProgress` callables: rate and time left, on standard error.

On a terminal a bar is drawn by rich. Anywhere else (a log file, CI) a plain line is written now
and then, and nothing at all for work that is done before the first of them is due.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bertwright.cli.output import say
from bertwright.progress import OnProgress, clock, silent

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def bar(label: str, unit: str = "", lines: bool = True) -> Iterator[OnProgress]:
    """Show how work advances while the block runs; give the callable that the work calls.

    `unit` names what is counted ("documents"); "bytes" is shown as MB. Without `lines` nothing is
    written where there is no terminal: the work has a log.

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


def _written(label: str, advance: _Advance) -> OnProgress:
    """Progress as a line every half minute."""
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
    """How work advances, from its first report on: what is loaded before, or was done by a run that
    this one resumes, would give a wrong rate."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.first: tuple[int, float] | None = None

    def describe(self, done: int, total: int | None, now: float) -> str:
        before, begin = self.first = self.first or (done, now)
        return describe(done, total, now - begin, self.unit, before)


def describe(done: int, total: int | None, seconds: float, unit: str = "", before: int = 0) -> str:
    """`2,000 of 8,000 documents (25 %), 100/s, 1:00 left`, where `before` were done at second 0."""
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
