"""Make the next step's batches in a thread while the current step is computed.

Work is queued on a GPU without waiting, so the host has the time of a whole step for the next
batch: it chooses and masks tokens, pins them, and queues their copies to the device.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bertwright.train.state import DataPosition

Made = tuple[list[Any], DataPosition]
"""The micro-batches of a step, and the data position after it."""


class Ahead:
    """Makes the batches of a step and, in a thread, those of the next step.

    `make` is a function of the data position only. If `ahead` is set, a thread calls it for the
    following position too, with the same result.
    """

    def __init__(self, make: Callable[[DataPosition], Made], ahead: bool) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1, "bertwright-batches") if ahead else None
        self._next: tuple[DataPosition, Future[Made]] | None = None

    def __call__(self, at: DataPosition) -> Made:
        """Return the micro-batches of the step at a data position, and the next position."""
        if self._pool is None:
            return self._make(at)
        ready, self._next = self._next, None
        step = ready[1].result() if ready and ready[0] == at else self._make(at)
        self._next = step[1], self._pool.submit(self._make, step[1])
        return step
