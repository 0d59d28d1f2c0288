"""Texts of many callers as batches of one device.

The device works on one batch at a time or, where much waits, on a few side by side, each on its
share of the cores. When it is free, the next batch is the oldest text that waits and, from a
bounded window behind it, those that fit it best, up to a budget of tokens: for a quarter of the
budget the shortest ones, so that a short text never queues behind a flood of long ones; then those
of the nearest lengths, as equal lengths run fastest. The oldest always goes, so none starves; one
larger than the budget goes alone.

A text whose caller has gone or whose deadline has passed is dropped when its turn comes. A batch
that fails is run again in halves, down to the texts that fail by themselves: those get 503, the
others their answers. After several batches in a row of which nothing succeeded, or one that does
not end, `on_failing` is called: the device, not a text, is at fault.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from bertwright.serve.aside import Aside
from bertwright.serve.errors import Refusal, busy, unavailable

WINDOW = 1024
"""Texts among which those that fit are looked for."""
FOR_SHORT = 4
"""One part in so many of a batch is for the shortest texts."""
GIVE_UP = 16
"""Runs of one failing batch in halves, at most, while none succeeds."""

log = logging.getLogger("bertwright.serve")


@dataclass(eq=False, slots=True)
class Item:
    """One text's work."""

    lane: object
    """What runs it: texts of one lane may share a batch."""
    work: Any
    """For the lane."""
    tokens: int
    call: Call | None = None
    place: int = 0


@dataclass(eq=False, slots=True)
class Call:
    """The texts of one request."""

    future: asyncio.Future[list[Any]]
    deadline: float
    gone: Callable[[], bool] | None
    results: list[Any]
    left: int
    started: float

    def fail(self, error: Exception) -> None:
        """Answer all of it with an error."""
        if not self.future.done():
            self.future.set_exception(error)

    def give(self, place: int, result: Any) -> None:
        """One text's result; with the last one the request is answered."""
        self.results[place] = result
        self.left -= 1
        if self.left == 0 and not self.future.done():
            self.future.set_result(self.results)


@dataclass
class Watch:
    """What a batcher tells while it works; metrics replace these."""

    on_batch: Callable[[int, int, float], None] = lambda items, tokens, seconds: None
    """Texts, tokens and seconds of a batch."""
    on_dropped: Callable[[str], None] = lambda reason: None
    """A request that was dropped: `deadline` or `gone`."""
    on_failed: Callable[[], None] = lambda: None
    """A batch of which nothing succeeded."""


class Failed:
    """Stands for the result of a text that could not be computed."""


@dataclass(eq=False, slots=True)
class Turn:
    """A batch that is computed."""

    batch: list[Item]
    thread: Aside
    at_once: int
    """Batches that have the device's cores; of more than one each has its share."""
    started: float
    timer: asyncio.TimerHandle | None = None


Run = Callable[[object, list[Any], int], Sequence[Any]]
"""A lane, its works and how many batches have the device's cores -> a result for each, in order. It
is called in a thread of the device's."""


@dataclass
class Batcher:
    """The queue before one device."""

    run: Run
    batch_tokens: int
    queue_tokens: int
    queue_requests: int
    failures: int = 5
    batch_timeout: float = 120.0
    on_failing: Callable[[], None] = lambda: None
    watch: Watch = field(default_factory=Watch)
    at_once: int = 1
    """Batches that the device works on side by side, where half a batch and more waits."""

    def __post_init__(self) -> None:
        self.waiting: deque[Item] = deque()
        self.tokens = 0
        """Tokens that wait."""
        self.calls = 0
        """Requests that wait or are computed."""
        self.is_stuck = False
        """Whether a batch did not end in time."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [Aside(f"device {number}") for number in range(self.at_once)]
        self._turns: list[Turn] = []
        self._failed_in_a_row = 0

    def start(self) -> None:
        """Begin to work; to be called in the event loop."""
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """End; whoever still waits gets 503."""
        self._loop = None
        self._fail_all(unavailable("the server is going down", "draining"))
        for thread in self._threads:
            thread.stop(wait=False)

    @property
    def is_working(self) -> bool:
        """Whether texts are computed."""
        return self._loop is not None and not self.is_stuck

    @property
    def is_busy(self) -> bool:
        """Whether a thread of the device's has a batch; after `stop` it may have one for ever."""
        return bool(self._turns)

    @property
    def _has_room(self) -> bool:
        return not self._turns or len(self._turns) < self._turns[0].at_once

    async def ask(
        self,
        items: Sequence[Item],
        deadline: float,
        gone: Callable[[], bool] | None = None,
    ) -> list[Any]:
        """Results of the texts of one request, in order.

        Args:
            items: its texts.
            deadline: seconds they may wait.
            gone: tells whether the caller has left.

        Raises:
            Refusal: 429, too much waits; 503, the deadline passed or the device failed.
        """
        if self.is_stuck:
            raise _stuck()
        tokens = sum(item.tokens for item in items)
        if self.calls >= self.queue_requests:
            raise busy("too many requests wait; try again")
        if self.tokens and self.tokens + tokens > self.queue_tokens:
            raise busy("too many tokens wait; try again")
        if not items:
            return []
        now = time.monotonic()
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        call = Call(future, now + deadline, gone, [None] * len(items), len(items), now)
        for place, item in enumerate(items):
            item.call, item.place = call, place
        self.waiting.extend(items)
        self.tokens += tokens
        self.calls += 1
        if self._has_room:  # else when a batch ends
            asyncio.get_running_loop().call_soon(self._feed)
        try:
            results = await future
        finally:
            self.calls -= 1
        if any(isinstance(result, Failed) for result in results):
            raise unavailable("this could not be computed; try again", "failed")
        return results

    def _feed(self) -> None:
        """Give the device what waits: a batch on all its cores or, of half a batch and more, one on
        each share of them, which do not wait for each other."""
        while self.waiting and self._has_room and self._loop is not None and not self.is_stuck:
            at_once, share = 1, self.batch_tokens
            if self._turns:
                at_once = self._turns[0].at_once
                share //= at_once
            elif self.tokens >= self.batch_tokens // 2:
                at_once = self.at_once
                share = min(share, self.tokens) // at_once
            # beside a text that fills a share short ones have room, as in a whole batch
            least = self.waiting[0].tokens + share // FOR_SHORT
            batch = self._present(self._take(max(share, min(least, self.batch_tokens))))
            if batch:
                self._begin(self._loop, batch, at_once)

    def _begin(self, loop: asyncio.AbstractEventLoop, batch: list[Item], at_once: int) -> None:
        # a batch on all cores is always of the first thread: OpenMP keeps a team a thread
        taken = [turn.thread for turn in self._turns]
        thread = next(thread for thread in self._threads if thread not in taken)
        turn = Turn(batch, thread, at_once, time.monotonic())
        self._turns.append(turn)
        turn.timer = loop.call_later(self.batch_timeout, self._give_up, turn)
        works = [item.work for item in turn.batch]
        lane = turn.batch[0].lane
        turn.thread.put(loop, partial(self._end, turn), self._halved, lane, works, turn.at_once)

    def _end(self, turn: Turn, results: list[Any] | None, error: Exception | None) -> None:
        """A batch was computed: first of all the device gets the next."""
        assert turn.timer is not None
        turn.timer.cancel()
        seconds = time.monotonic() - turn.started
        self._turns.remove(turn)
        self._feed()
        if results is None:
            log.error("batch failed", exc_info=error)
            results = [Failed()] * len(turn.batch)
        for item, result in zip(turn.batch, results, strict=True):
            assert item.call is not None
            item.call.give(item.place, result)
        self._count(results)
        self.watch.on_batch(len(turn.batch), sum(item.tokens for item in turn.batch), seconds)

    def _take(self, budget: int) -> list[Item]:
        """The next batch, out of the queue."""
        now = time.monotonic()
        window = [self.waiting.popleft() for _ in range(min(WINDOW, len(self.waiting)))]
        alive = [item for item in window if self._is_alive(item, now)]
        chosen: set[int] = set()
        if alive:
            lane = alive[0].lane
            same = [place for place, item in enumerate(alive) if item.lane is lane]
            picked = choose([alive[place].tokens for place in same], budget)
            chosen = {same[place] for place in picked}
        rest = [item for place, item in enumerate(alive) if place not in chosen]
        self.waiting.extendleft(reversed(rest))
        batch = [alive[place] for place in sorted(chosen)]
        self.tokens -= sum(item.tokens for item in window) - sum(item.tokens for item in rest)
        return batch

    def _is_alive(self, item: Item, now: float) -> bool:
        call = item.call
        assert call is not None
        if call.future.done():
            return False
        if now > call.deadline:
            self.watch.on_dropped("deadline")
            call.fail(unavailable("its turn did not come before its deadline", "deadline"))
            return False
        return True

    def _present(self, batch: list[Item]) -> list[Item]:
        """Those whose callers are still there."""
        left: dict[int, bool] = {}
        for call in {id(item.call): item.call for item in batch}.values():
            assert call is not None
            gone = call.gone is not None and call.gone()
            if gone:
                self.watch.on_dropped("gone")
                call.fail(Refusal(499, "gone", "the caller left"))
            left[id(call)] = gone or call.future.done()
        return [item for item in batch if not left[id(item.call)]]

    def _halved(self, lane: object, works: list[Any], at_once: int) -> list[Any]:
        """Results of all; what fails is split until it is clear which texts fail."""
        parts, results = [works], list[Any]()
        tries = succeeded = 0
        while parts:
            part = parts.pop()
            tries += 1
            if tries > GIVE_UP and not succeeded:
                results += [Failed()] * len(part)
                continue
            try:
                found = list(self.run(lane, part, at_once))
            except Exception as error:
                log.error("batch failed", extra={"facts": _facts(error, len(part))})
                half = len(part) // 2
                if half:
                    parts += [part[half:], part[:half]]
                else:
                    results.append(Failed())
            else:
                results += found
                succeeded += 1
        return results

    def _give_up(self, turn: Turn) -> None:
        """The batch does not end: whoever waits gets 503."""
        if self.is_stuck:  # another told it already
            return
        facts = {"items": len(turn.batch), "seconds": self.batch_timeout}
        log.error("batch does not end", extra={"facts": facts})
        self.is_stuck = True
        self.on_failing()
        self._fail_all(_stuck())

    def _fail_all(self, refusal: Refusal) -> None:
        for item in [*(item for turn in self._turns for item in turn.batch), *self.waiting]:
            assert item.call is not None
            item.call.fail(refusal)
        self.waiting.clear()
        self.tokens = 0

    def _count(self, results: Sequence[Any]) -> None:
        if not all(isinstance(result, Failed) for result in results):
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        self.watch.on_failed()
        if self._failed_in_a_row == self.failures:
            self.on_failing()


def choose(tokens: Sequence[int], budget: int) -> list[int]:
    """Which of the texts that wait, oldest first, make the next batch; see the header.

    Args:
        tokens: of each text.
        budget: of a batch.

    Returns:
        Their places: the oldest, and others whose sum with it is within the budget.
    """
    room = budget - tokens[0]
    chosen = [0]
    if room <= 0:
        return chosen
    rest = range(1, len(tokens))
    short = budget // FOR_SHORT
    taken = {0}
    for place in sorted(rest, key=tokens.__getitem__):
        if tokens[place] > min(short, room):
            break
        chosen.append(place)
        taken.add(place)
        short -= tokens[place]
        room -= tokens[place]
    nearest = sorted(rest, key=lambda place: abs(tokens[place] - tokens[0]))
    for place in islice((place for place in nearest if place not in taken), WINDOW):
        if tokens[place] <= room:
            chosen.append(place)
            room -= tokens[place]
    return chosen


def _stuck() -> Refusal:
    return unavailable("the device does not answer", "failing")


def _facts(error: Exception, items: int) -> dict[str, Any]:
    """What is logged of a failure: no message, as it might hold a text."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
    return {"error": type(error).__name__, "where": where, "items": items}
