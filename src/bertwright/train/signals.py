"""Signals that end a run after it is saved."""

from __future__ import annotations

import contextlib
import signal
import time
from types import TracebackType
from typing import Any

# Launchers and closing terminals send a signal twice; only one that comes so much later kills.
SECONDS_OF_ONE_SIGNAL = 1.0


class Signals:
    """While the block runs, remember Ctrl-C, SIGTERM and a closed terminal instead of dying of
    them; one more, a second later, kills.

    Not so under torchrun: it passes each signal on to processes that have had it already, and
    kills those that take too long itself.
    """

    number = 0
    """The first signal that came; 0: none."""

    def __init__(self, alone: bool = True) -> None:
        """`alone`: not one of several processes of torchrun."""
        self._alone = alone
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            numbers.append(signal.SIGHUP)  # ignored under nohup, and to stay so
        with contextlib.suppress(ValueError):  # not in the main thread: nobody to listen to
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
        if not self.number:
            self.number, self._first = number, now
        elif self._alone and now - self._first > SECONDS_OF_ONE_SIGNAL:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
