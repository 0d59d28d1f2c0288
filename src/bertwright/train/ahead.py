"""Batches that are made in a thread while the step before them is computed.

A GPU is given its work without waiting, so the host has the time of a whole step for the next
batch: choosing and masking tokens, pinning them, and queueing their copies to the device.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bertwright.train.state import DataPosition

Made = tuple[list[Any], DataPosition]
"""The micro-batches of a step, and the data position after it."""


class Ahead:
    """Calls `make`, a function of the data position alone; where `ahead` is set, a thread calls it
    for the position that follows too. What comes out is the same."""

    def __init__(self, make: Callable[[DataPosition], Made], ahead: bool) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1, "bertwright-batches") if ahead else None
        self._next: tuple[DataPosition, Future[Made]] | None = None

    def __call__(self, at: DataPosition) -> Made:
        """The step at a data position."""
        if self._pool is None:
            return self._make(at)
        ready, self._next = self._next, None
        made = ready[1].result() if ready and ready[0] == at else self._make(at)
        self._next = made[1], self._pool.submit(self._make, made[1])
        return made
