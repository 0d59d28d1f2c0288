"""Calls in threads beside the event loop: parsing, tokenizing, writing large replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from bertwright.serve.errors import unavailable

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Two threads that make calls for requests."""

    def __init__(self, timeout: float, on_stuck: Callable[[], None]) -> None:
        """Make the threads; `on_stuck` is called if a call takes more than `timeout` seconds."""
        self.is_stuck = False
        """Whether a call did not end in time."""
        self._timeout, self._on_stuck = timeout, on_stuck
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="side")

    def stop(self) -> None:
        """End the threads, unless one hangs."""
        self._pool.shutdown(wait=not self.is_stuck)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, run in a thread.

        Raises:
            HttpError: the call does not end in time; the server is failing.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        timer = loop.call_later(self._timeout, self._give_up, result)

        def end(done: Future[T]) -> None:
            timer.cancel()
            error = done.exception()
            if result.done():  # its client left
                return
            if error is None:
                result.set_result(done.result())
            elif isinstance(error, Exception):
                result.set_exception(error)
            else:  # a panic of Rust
                result.set_exception(RuntimeError(type(error).__name__))

        hand_over(loop, self._pool, end, call, *args, **kwargs)
        return await result

    def _give_up(self, result: asyncio.Future[Any]) -> None:
        """Fail a call that does not end."""
        self.is_stuck = True
        self._on_stuck()
        if not result.done():
            result.set_exception(unavailable("a text is not tokenized in time", "failing"))


def hand_over(
    loop: asyncio.AbstractEventLoop,
    thread: ThreadPoolExecutor,
    end: Callable[[Future[T]], None],
    call: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Make a call in a thread, and then call `end` with its outcome on the event loop.

    With asyncio's own futures two more turns of the loop would pass before that.
    """

    def back(done: Future[T]) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            loop.call_soon_threadsafe(end, done)

    thread.submit(call, *args, **kwargs).add_done_callback(back)
