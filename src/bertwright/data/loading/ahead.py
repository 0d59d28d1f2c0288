"""Make the batches of the next step in a thread while the current step is computed.

The host queues work on a GPU without waiting for it. During a step it can make the next batches:
choose and mask tokens, pin them, and queue their copies to the device.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from bertwright.data.loading.phases import DataPosition
from bertwright.nn.batch import Batch

B = TypeVar("B", bound=Batch)


class Ahead(Generic[B]):
    """Calls a function that makes the micro-batches of a step, in a thread one step ahead.

    The results are the same as if the function were called only when they are needed.
    """

    def __init__(
        self, make: Callable[[DataPosition], tuple[list[B], DataPosition]], ahead: bool
    ) -> None:
        """Initialize with the function to call.

        Args:
            make: returns the micro-batches of the step at a data position, and the next data
                position. It must depend on the position only.
            ahead: whether a thread calls it for the next position in advance.
        """
        self._make = make
        self._pool = ThreadPoolExecutor(1, "bertwright-batches") if ahead else None
        self._next: tuple[DataPosition, Future[tuple[list[B], DataPosition]]] | None = None

    def __call__(self, at: DataPosition) -> tuple[list[B], DataPosition]:
        """Return the micro-batches of the step at a data position, and the next data position."""
        if self._pool is None:
            return self._make(at)
        ready, self._next = self._next, None
        step = ready[1].result() if ready and ready[0] == at else self._make(at)
        self._next = step[1], self._pool.submit(self._make, step[1])
        return step
