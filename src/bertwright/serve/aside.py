"""Work beside the event loop: a thread does all that waits in one turn.

An executor hands each piece over by itself, which wakes two threads for work that takes less time
than that. Here the loop is woken once a turn, and under load a turn has many pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

Told = Callable[[Any, Exception | None], None]
"""Is called in the event loop with the result of a piece, or its error."""
Job = tuple[asyncio.AbstractEventLoop, Told, Callable[..., Any], tuple[Any, ...]]
MOST = 32
"""Pieces of a turn, at most: the first is not kept waiting for long."""


class Aside:
    """One thread, which works in order."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[..., Any], *given: Any) -> Any:
        """What `call` gives, or raises; to be asked in an event loop."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def tell(result: Any, error: Exception | None) -> None:
            if future.done():  # its caller left
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.put(loop, tell, call, *given)
        return await future

    def put(
        self, loop: asyncio.AbstractEventLoop, tell: Told, call: Callable[..., Any], *given: Any
    ) -> None:
        """Have `call` done, and `tell` called in `loop` with what it gives or raises."""
        self._jobs.put((loop, tell, call, given))

    def stop(self, wait: bool = True) -> None:
        """End, after what waits."""
        self._jobs.put(None)
        if wait:
            self._thread.join()

    def _work(self) -> None:
        while self._turn(self._jobs.get()):  # nothing of a turn, as a model, outlives it
            pass

    def _turn(self, job: Job | None) -> bool:
        """Do what waits; whether more may come."""
        if job is None:
            return False
        turn: list[Job] = [job]
        ended = False
        while len(turn) < MOST and not ended:
            try:
                more = self._jobs.get_nowait()
            except Empty:
                break
            ended = more is None
            if more is not None:
                turn.append(more)
        done = [(tell, *_outcome(call, given)) for _, tell, call, given in turn]
        loop = job[0]
        try:
            loop.call_soon_threadsafe(_tell, done)
        except RuntimeError:
            if not loop.is_closed():
                raise
            return False  # nobody waits any more
        return not ended


def _outcome(call: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return call(*given), None
    except Exception as error:
        return None, error


def _tell(done: list[tuple[Told, Any, Exception | None]]) -> None:
    for tell, result, error in done:
        tell(result, error)
