"""Small pieces of work beside the event loop: a thread does all that wait in one turn.

An executor hands each piece over by itself, which wakes two threads for work that takes less time
than that. Here the loop is woken once a turn, and under load a turn has many pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

Job = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]
MOST = 32
"""Pieces of a turn, at most: the first is not kept waiting for long."""


class Aside:
    """One thread for short work, in order."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[..., Any], *given: Any) -> Any:
        """What `call` gives, or raises; to be asked in an event loop."""
        future = asyncio.get_running_loop().create_future()
        self._jobs.put((future, call, given))
        return await future

    def stop(self) -> None:
        """End, after what waits."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
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
            done = [(future, *_outcome(call, given)) for future, call, given in turn]
            job[0].get_loop().call_soon_threadsafe(_tell, done)
            if ended:
                return


def _outcome(call: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return call(*given), None
    except Exception as error:
        return None, error


def _tell(done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for future, result, error in done:
        if future.done():  # its caller left
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
