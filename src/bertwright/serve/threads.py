"""Calls that run in threads beside the event loop: parsing, tokenizing, writing large replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

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
        made = self._pool.submit(_guarded, partial(call, *args, **kwargs))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(made)
        except TimeoutError as error:
            if made.done() and not made.cancelled():  # raised by the call itself
                raise
            self.is_stuck = True
            self._on_stuck()
            raise unavailable("a text is not tokenized in time", "failing") from error


def _guarded(call: Callable[[], T]) -> T:
    """Return what `call` returns. A panic of Rust, which is not an `Exception`, is raised as a
    `RuntimeError`."""
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(type(error).__name__) from None
