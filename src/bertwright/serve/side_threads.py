"""Calls that run in threads beside the event loop: parsing, tokenizing, writing large replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from bertwright.serve.engine.batching import hand_over
from bertwright.serve.errors import unavailable

P = ParamSpec("P")
T = TypeVar("T")
Queued = tuple[Callable[[], Any], asyncio.Future[Any]]
"""A queued call and the future that receives its result."""
AT_ONCE = 32
"""The most short calls that a thread makes in one turn."""


class SideThreads:
    """Two threads that make calls for requests."""

    def __init__(self, timeout: float, on_stuck: Callable[[], None]) -> None:
        """Make the threads; `on_stuck` is called if a turn of calls exceeds `timeout` seconds."""
        self.is_stuck = False
        """Whether a thread did not end in time."""
        self._timeout, self._on_stuck = timeout, on_stuck
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="side")
        self._short: list[Queued] = []
        self._has_turn = False
        """Whether a turn of short calls is under way."""

    def stop(self) -> None:
        """End the threads, unless one hangs."""
        self._pool.shutdown(wait=not self.is_stuck)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, run in a thread.

        Raises:
            HttpError: the thread does not end in time; the server is failing.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._begin([(partial(call, *args, **kwargs), future)])
        return await future

    async def run_short(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, run in one turn of a thread with all that are queued: handing
        over a short call by itself takes longer than its work. Errors are those of `run`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._short.append((partial(call, *args, **kwargs), future))
        if not self._has_turn:
            self._has_turn = True
            loop.call_soon(self._begin_short)
        return await future

    def _begin_short(self) -> None:
        turn, self._short = self._short[:AT_ONCE], self._short[AT_ONCE:]
        self._has_turn = bool(turn)
        if turn:
            self._begin(turn, self._begin_short)

    def _begin(self, turn: Sequence[Queued], then: Callable[[], None] = lambda: None) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._timeout, self._give_up, turn)

        def end(done: Future[list[Any]]) -> None:
            timer.cancel()
            for (_, future), outcome in zip(turn, done.result(), strict=True):
                if future.done():  # its client left
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
            then()

        hand_over(loop, self._pool, end, _outcomes, [call for call, _ in turn])

    def _give_up(self, turn: Sequence[Queued]) -> None:
        """Fail the calls of a turn that does not end, and those that wait."""
        self.is_stuck = True
        self._on_stuck()
        for _, future in [*turn, *self._short]:
            if not future.done():
                future.set_exception(unavailable("a text is not tokenized in time", "failing"))


def _outcomes(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Return what each call returns or raises. A panic of Rust, which is not an `Exception`, is
    given as a `RuntimeError`."""
    outcomes: list[T | Exception] = []
    for call in calls:
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)
        except BaseException as error:
            outcomes.append(RuntimeError(type(error).__name__))
    return outcomes
