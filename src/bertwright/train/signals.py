"""Handle the signals that end a run, so that it is saved first."""

from __future__ import annotations

import contextlib
import signal
import time
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from bertwright.errors import Interrupted

SECONDS_OF_ONE_SIGNAL = 1.0
"""Launchers and closing terminals send a signal twice; only a second one after this time kills."""


class SeveralRuns:
    """Work that consists of several runs, inside a `with` block.

    A run in whose last step a signal arrives still finishes; the work must end after it.
    """

    def __init__(self) -> None:
        self.number = 0
        """The last signal that a run of the block remembered; 0: none."""

    def __enter__(self) -> SeveralRuns:
        self._token = _several_runs.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _several_runs.reset(self._token)
        if (around := _several_runs.get()) is not None:  # this work is a run of other work
            around.number = around.number or self.number

    def heed(self) -> None:
        """Raise `Interrupted` if a signal arrived in the last step of a run; to be called between
        runs.
        """
        if self.number:
            raise Interrupted(self.number, "interrupted")


_several_runs: ContextVar[SeveralRuns | None] = ContextVar("several_runs", default=None)


class Signals:
    """Remembers Ctrl-C, SIGTERM and a closed terminal while the block runs, instead of ending at
    once.

    A second signal, at least a second later, kills the process. Under torchrun it does not, because
    torchrun passes each signal on to processes that have received it already, and kills slow
    processes itself.
    """

    def __init__(self, alone: bool = True) -> None:
        """Initialize the handler. `alone` says that the process is not one of several of
        torchrun.
        """
        self.number = 0
        """The first signal that arrived; 0: none."""
        self._alone = alone
        self._first = 0.0
        self._before: dict[int, Any] = {}
        self._work = _several_runs.get()

    def __enter__(self) -> Signals:
        numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            numbers.append(signal.SIGHUP)  # under nohup it is ignored, and stays so
        with contextlib.suppress(ValueError):  # only the main thread can handle signals
            for number in numbers:
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if self._work is not None:
            self._work.number = number
        if not self.number:
            self.number, self._first = number, now
        elif self._alone and now - self._first > SECONDS_OF_ONE_SIGNAL:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
