"""Batching the texts of many requests for one device.

Which texts share a batch, how long they wait and what happens when a batch fails:
docs/howto/serving.md, "How requests become batches". Generation computes in turns
(`Batcher.turn`); while texts wait too, turns and batches alternate.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from bertwright.serve.errors import HttpError, busy, unavailable
from bertwright.serve.threads import hand_over

WINDOW = 1024
"""Queued texts among which those that fit a batch are searched."""
FOR_SHORT = 4
"""Of a batch, one part in this many is reserved for the shortest texts."""
GIVE_UP = 16
"""The most runs of the halves of a failing batch while none succeeds."""
FAILURES = 5
"""The number of consecutive batches of which no text could be computed, after which the device is
considered broken."""

FAILED = object()
"""The result of a text that could not be computed."""

log = logging.getLogger("bertwright.serve")


class Computes(Protocol):
    """What computes batches: a model, or the texts that it generates."""

    def run(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return a result for each item, in order."""


@dataclass(eq=False, slots=True)
class QueuedItem:
    """A queued text of a request."""

    model: Computes
    """What computes it; texts of one model may share a batch."""
    item: Any
    """What the model computes."""
    tokens: int
    call: Call | None = None
    index: int = 0
    """Its position among the texts of its request."""


@dataclass(eq=False, slots=True)
class Call:
    """The texts of one request and the future that receives their results."""

    future: asyncio.Future[list[Any]]
    deadline: float
    gone: Callable[[], bool] | None
    results: list[Any]
    left: int

    def fail(self, error: Exception) -> None:
        """Fail the whole request."""
        if not self.future.done():
            self.future.set_exception(error)

    def set(self, index: int, result: Any) -> None:
        """Set the result of one text; the last one completes the request."""
        self.results[index] = result
        self.left -= 1
        if self.left == 0 and not self.future.done():
            self.future.set_result(self.results)


@dataclass(eq=False, slots=True)
class RunningBatch:
    """A batch that is being computed."""

    items: list[QueuedItem]
    thread: ThreadPoolExecutor
    at_once: int
    """The number of batches among which the cores of the device are divided."""
    started: float
    timer: asyncio.TimerHandle | None = None


Compute = Callable[[Computes, list[Any], int], Sequence[Any]]
"""Takes a model, items and the number of batches among which the cores are divided, and returns a
result for each item, in order. It is called in a thread of the device."""


@dataclass
class Batcher:
    """The queue before one device."""

    compute: Compute
    batch_tokens: int
    queue_tokens: int
    queue_requests: int
    batch_timeout: float = 120.0
    on_failing: Callable[[], None] = lambda: None
    on_batch: Callable[[int, int, float], None] = lambda items, tokens, seconds: None
    """Called with the texts, tokens and seconds of a batch."""
    on_dropped: Callable[[str], None] = lambda reason: None
    """Called with the reason for which a request is dropped: `deadline` or `gone`."""
    on_failed: Callable[[], None] = lambda: None
    """Called when no text of a batch could be computed."""
    at_once: int = 1
    """Batches that the device computes side by side while at least half a batch waits."""

    def __post_init__(self) -> None:
        self.waiting: deque[QueuedItem] = deque()
        self.tokens = 0
        """The number of queued tokens."""
        self.turns: deque[QueuedItem] = deque()
        """Queued turns of generation, at most one of each model."""
        self.calls = 0
        """The number of requests that wait or are computed."""
        self.is_stuck = False
        """Whether a batch did not end in time."""
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._threads = [ThreadPoolExecutor(1, f"device {n}") for n in range(self.at_once)]
        self._running: list[RunningBatch] = []
        self._failed_in_a_row = 0
        self._had_turn = False

    def stop(self) -> None:
        """Compute nothing more; requests that still wait get 503."""
        self._ended = True
        self._fail_all()
        for thread in self._threads:
            thread.shutdown(wait=False)

    @property
    def is_working(self) -> bool:
        """Whether the device computes texts."""
        return not (self._ended or self.is_stuck)

    @property
    def is_busy(self) -> bool:
        """Whether a thread of the device computes a batch, which after `stop` may never end."""
        return bool(self._running)

    @property
    def _has_room(self) -> bool:
        return not self._running or len(self._running) < self._running[0].at_once

    async def run(
        self, items: Sequence[QueuedItem], deadline: float, gone: Callable[[], bool] | None = None
    ) -> list[Any]:
        """Return the results of the texts of one request, in order.

        The texts wait at most `deadline` seconds, and not after `gone` says that the client left.

        Raises:
            HttpError: 429, too much waits; 503, the deadline passed or the device failed.
        """
        if not self.is_working:
            raise self._refusal()
        tokens = sum(item.tokens for item in items)
        if self.calls >= self.queue_requests:
            raise busy("too many requests wait; try again")
        if self.tokens and self.tokens + tokens > self.queue_tokens:
            raise busy("too many tokens wait; try again")
        if not items:
            return []
        now = time.monotonic()
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        call = Call(future, now + deadline, gone, [None] * len(items), len(items))
        for index, item in enumerate(items):
            item.call, item.index = call, index
        self.waiting.extend(items)
        self.tokens += tokens
        self.calls += 1
        if self._has_room:  # otherwise it is fed when a batch ends
            self._loop.call_soon(self._feed)
        try:
            results = await future
        finally:
            self.calls -= 1
        if any(result is FAILED for result in results):
            raise _failed()
        return results

    async def turn(self, model: Computes, item: Any) -> None:
        """Compute an item by itself, after at most one batch of texts.

        Raises:
            HttpError: it fails, or the device has failed.
        """
        if not self.is_working:
            raise self._refusal()
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        call = Call(future, math.inf, None, [None], 1)
        self.turns.append(QueuedItem(model, item, 0, call))
        if self._has_room:
            self._feed()
        (result,) = await future
        if result is FAILED:
            raise _failed()

    def _feed(self) -> None:
        """Give the device what waits: one batch on all its cores or, if at least half a batch is
        queued, one on each part of them, so that the parts do not wait for each other."""
        while self._has_room and self.is_working:
            at_once, part = 1, self.batch_tokens
            if self._running:
                at_once = self._running[0].at_once
                part //= at_once
            elif self.tokens >= self.batch_tokens // 2:
                at_once = self.at_once
                part = min(part, self.tokens) // at_once
            if self.turns and not (self._had_turn and self.waiting):
                self._had_turn = True
                self._begin([self.turns.popleft()], at_once)
                continue
            self._had_turn = False
            if not self.waiting:
                return
            # leaves room for short texts beside a text that fills a part, as in a whole batch
            least = self.waiting[0].tokens + part // FOR_SHORT
            items = self._present(self._take(max(part, min(least, self.batch_tokens))))
            if items:
                self._begin(items, at_once)

    def _begin(self, items: list[QueuedItem], at_once: int) -> None:
        # a batch on all cores always uses the first thread: OpenMP keeps a team for each thread
        taken = [batch.thread for batch in self._running]
        thread = next(thread for thread in self._threads if thread not in taken)
        batch = RunningBatch(items, thread, at_once, time.monotonic())
        self._running.append(batch)
        batch.timer = self._loop.call_later(self.batch_timeout, self._give_up, batch)
        given = items[0].model, [item.item for item in items], at_once
        hand_over(self._loop, thread, partial(self._end, batch), self._halved, *given)

    def _end(self, batch: RunningBatch, future: Future[list[Any]]) -> None:
        """Set the results of a computed batch, after the device has got the next batch."""
        assert batch.timer is not None
        batch.timer.cancel()
        seconds = time.monotonic() - batch.started
        self._running.remove(batch)
        self._feed()
        results = future.result()
        for item, result in zip(batch.items, results, strict=True):
            assert item.call is not None
            item.call.set(item.index, result)
        self._count(results)
        if tokens := sum(item.tokens for item in batch.items):  # a turn has none
            self.on_batch(len(batch.items), tokens, seconds)

    def _take(self, budget: int) -> list[QueuedItem]:
        """Take the next batch out of the queue."""
        now = time.monotonic()
        window = [self.waiting.popleft() for _ in range(min(WINDOW, len(self.waiting)))]
        alive = [item for item in window if self._is_alive(item, now)]
        chosen: set[int] = set()
        if alive:
            model = alive[0].model
            same = [n for n, item in enumerate(alive) if item.model is model]
            picked = choose([alive[n].tokens for n in same], budget)
            chosen = {same[n] for n in picked}
        rest = [item for n, item in enumerate(alive) if n not in chosen]
        self.waiting.extendleft(reversed(rest))
        batch = [alive[n] for n in sorted(chosen)]
        self.tokens -= sum(item.tokens for item in window) - sum(item.tokens for item in rest)
        return batch

    def _is_alive(self, item: QueuedItem, now: float) -> bool:
        call = item.call
        assert call is not None
        if call.future.done():
            return False
        if now > call.deadline:
            self.on_dropped("deadline")
            call.fail(unavailable("it waited longer than its deadline", "deadline"))
            return False
        return True

    def _present(self, batch: list[QueuedItem]) -> list[QueuedItem]:
        """Return the items whose clients have not left."""
        left: dict[int, bool] = {}
        for call in {id(item.call): item.call for item in batch}.values():
            assert call is not None
            gone = call.gone is not None and call.gone()
            if gone:
                self.on_dropped("gone")
                call.fail(HttpError(499, "gone", "the client left"))
            left[id(call)] = gone or call.future.done()
        return [item for item in batch if not left[id(item.call)]]

    def _halved(self, model: Computes, items: list[Any], at_once: int) -> list[Any]:
        """Return the results of all items. A batch that fails is split until it is clear which
        texts fail."""
        parts, results = [items], list[Any]()
        tries = succeeded = 0
        while parts:
            part = parts.pop()
            tries += 1
            if tries > GIVE_UP and not succeeded:
                results += [FAILED] * len(part)
                continue
            try:
                found = list(self.compute(model, part, at_once))
            except BaseException as error:  # a panic of Rust is not an Exception
                log.error("batch failed", extra={"facts": _facts(error, len(part))})
                half = len(part) // 2
                if half:
                    parts += [part[half:], part[:half]]
                else:
                    results.append(FAILED)
            else:
                results += found
                succeeded += 1
        return results

    def _give_up(self, batch: RunningBatch) -> None:
        """Fail all requests that are queued or computed, as a batch does not end."""
        if self.is_stuck:  # another batch was given up before
            return
        facts = {"items": len(batch.items), "seconds": self.batch_timeout}
        log.error("batch does not end", extra={"facts": facts})
        self.is_stuck = True
        self.on_failing()
        self._fail_all()

    def _refusal(self) -> HttpError:
        """Return the error that nothing is computed any more."""
        if self._ended:
            return unavailable("the server is going down", "draining")
        return unavailable("the device does not respond", "failing")

    def _fail_all(self) -> None:
        error = self._refusal()
        running = (item for batch in self._running for item in batch.items)
        for item in [*running, *self.waiting, *self.turns]:
            assert item.call is not None
            item.call.fail(error)
        self.waiting.clear()
        self.turns.clear()
        self.tokens = 0

    def _count(self, results: Sequence[Any]) -> None:
        if not all(result is FAILED for result in results):
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        self.on_failed()
        if self._failed_in_a_row == FAILURES:
            self.on_failing()


def choose(tokens: Sequence[int], budget: int) -> list[int]:
    """Return which of the queued texts make the next batch, given their tokens, oldest first.

    They are the oldest; for a quarter of the budget the shortest, so that no short text waits
    behind a flood of long ones; then those nearest to the oldest in length.
    """
    room, short = budget - tokens[0], budget // FOR_SHORT
    chosen, rest = [0], range(1, len(tokens))
    if room <= 0:
        return chosen
    for n in sorted(rest, key=tokens.__getitem__):
        if tokens[n] > min(short, room):
            break
        chosen.append(n)
        short -= tokens[n]
        room -= tokens[n]
    taken = set(chosen)
    for n in sorted(rest, key=lambda n: abs(tokens[n] - tokens[0])):
        if n not in taken and tokens[n] <= room:
            chosen.append(n)
            room -= tokens[n]
    return chosen


def _failed() -> HttpError:
    return unavailable("this could not be computed; try again", "failed")


def _facts(error: BaseException, items: int) -> dict[str, Any]:
    """Return what is logged of a failure, without its message, which might contain a text."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
    return {"error": type(error).__name__, "where": where, "items": items}
