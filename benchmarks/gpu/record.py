"""The record of a call: JSON, a line a check, on the disk before the next check begins; and checks
that may fail, or take too long, without the ones after them.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

DAMAGED = 75
"""Exit code of a process whose device gives nothing but errors after a check; the next one goes on
with the check that follows."""

Check = Callable[[], dict[str, Any]]
"""One thing to find out; its figures."""


class TimeUp(BaseException):
    """The share of a check is over. No `Exception`, so that nothing on the way takes it for one."""


class Record:
    """Writes lines to a file, and reads those that other processes of the call wrote."""

    def __init__(self, file: Path, part: str) -> None:
        self.file, self.part = file, part

    def line(self, what: str, **figures: Any) -> None:
        """Append a line; also for people, on standard error."""
        record = {"part": self.part, "what": what, **figures}
        text = json.dumps(_plain(record))
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(text[:2000], file=sys.stderr, flush=True)

    def found(self, what: str) -> dict[str, Any]:
        """The last line of that name since the call began, of any part; empty where there is none.

        An older call may have written to the same file, on another card.
        """
        for record in reversed(read_lines(self.file)):
            if record["what"] == what:
                return dict(record)
            if record["what"] == "begin":
                break
        return {}


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a record, without one that a killed process left unfinished."""
    found: list[dict[str, Any]] = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


class Checks:
    """The checks of a part, one after the other, until its share is used up."""

    def __init__(
        self,
        record: Record,
        ends: float,
        healthy: Callable[[], None],
        after: str | None = None,
        patient: bool = False,
    ) -> None:
        """Run until `ends`, a time of `time.time()`; `healthy` raises where the device is not
        usable any more; checks up to the one named `after` are passed over; where `patient`, a
        check may take all that is left of the share."""
        self.patient = patient
        self.record, self.ends, self.healthy, self.after = record, ends, healthy, after
        self.begun = record.file.with_name(record.file.name + ".begun")
        """Holds the name of the check that runs: what remains of a process that was killed."""

    @property
    def left(self) -> float:
        """Seconds of the share."""
        return self.ends - time.time()

    def run(self, what: str, check: Check, most: float = math.inf, least: float = 2.0) -> None:
        """Run a check for at most `most` seconds, unless fewer than `least` are left of the share.

        Its line has `ok`: True, unless the check says otherwise. One that fails has `error`, the
        traceback; one that is too slow `stopped`, the seconds after which.
        """
        if self.after is not None:
            self.after = None if what == self.after else self.after
            return
        if self.left < least:
            self.record.line(
                what, ok=None, skipped=f"{max(0.0, self.left):.1f} s of the share left"
            )
            return
        self.begun.write_text(what, encoding="utf-8")
        share = self.left if self.patient else min(most, self.left)
        began = time.perf_counter()
        line: dict[str, Any]
        try:
            with time_limit(share):
                line = {"ok": True, **check()}
        except TimeUp:
            line = {"ok": False, "stopped": round(share, 1)}
        except Exception as error:
            trace = traceback.format_exc()
            print(trace, file=sys.stderr, flush=True)
            line = {"ok": False, "error": f"{type(error).__name__}: {error}", "traceback": trace}
        line["seconds"] = round(time.perf_counter() - began, 2)
        self.record.line(what, **line)
        try:
            self.healthy()
        except Exception as error:
            self.record.line(
                "device", ok=False, after=what, error=f"{type(error).__name__}: {error}"
            )
            sys.stderr.flush()
            os._exit(DAMAGED)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` in this thread after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _plain(value: Any) -> Any:
    """A value as JSON has it: rounded to six digits, not finite as text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else str(number)
