"""The queue: what shares a batch, who waits how long, and what becomes of failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.serve.engine.batching import FAILURES, Batcher, QueuedItem, choose
from bertwright.serve.errors import HttpError

LANE: Any = object()


class Device:
    """Doubles numbers, batch by batch, when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.bad: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def __call__(self, lane: Any, works: Sequence[int], at_once: int) -> list[int]:
        self.begun.set()
        assert self.gate.wait(10)
        self.batches.append(list(works))
        if self.bad & set(works):
            raise RuntimeError("a secret text")
        return [2 * work for work in works]


def items(*tokens: int, lane: Any = LANE, start: int = 0) -> list[QueuedItem]:
    return [QueuedItem(lane, start + n, count) for n, count in enumerate(tokens)]


def with_batcher(
    test: Callable[[Batcher, Device], Awaitable[None]], **settings: Any
) -> tuple[Batcher, Device]:
    device = Device()
    settings = {"batch_tokens": 100, "queue_tokens": 1000, "queue_requests": 50, **settings}

    async def main() -> Batcher:
        batcher = Batcher(device, **settings)
        try:
            await asyncio.wait_for(test(batcher, device), 20)
        finally:
            device.gate.set()
            batcher.stop()
        return batcher

    return asyncio.run(main()), device


async def held(batcher: Batcher, device: Device) -> asyncio.Task[list[Any]]:
    """Keep the device busy with one text."""
    device.gate.clear()
    device.begun.clear()
    task = asyncio.create_task(batcher.run(items(1, start=900), 30))
    assert await asyncio.to_thread(device.begun.wait, 10)
    return task


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 100))
def test_a_batch_has_the_oldest_and_stays_within_the_budget(tokens: list[int], budget: int) -> None:
    chosen = choose(tokens, budget)
    assert chosen[0] == 0
    assert len(set(chosen)) == len(chosen)
    total = sum(tokens[place] for place in chosen)
    assert total <= budget or chosen == [0]
    left = [tokens[place] for place in range(len(tokens)) if place not in chosen]
    if total <= budget:
        assert all(total + count > budget for count in left), "something more would have fitted"


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_none_starves(tokens: list[int]) -> None:
    waiting, batches = list(enumerate(tokens)), 0
    waits = {}
    while waiting:
        chosen = set(choose([count for _, count in waiting], 100))
        for place in chosen:
            waits[waiting[place][0]] = batches
        waiting = [each for place, each in enumerate(waiting) if place not in chosen]
        batches += 1
    assert all(waits[number] <= number for number in range(len(tokens)))


def test_a_short_text_passes_a_flood_of_long_ones() -> None:
    assert 99 in choose([25] * 99 + [2], 100)


def test_equal_lengths_share_a_batch() -> None:
    tokens = [40, 21, 39, 22, 41, 23]
    assert {place for place in choose(tokens, 100) if tokens[place] > 30} >= {0, 2}


def test_results_come_back_in_order_and_share_batches() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        first = await held(batcher, device)
        asked = [asyncio.create_task(batcher.run(items(3, 5, start=10 * n), 30)) for n in range(5)]
        await asyncio.sleep(0.05)
        device.gate.set()
        assert await first == [1800]
        for n, task in enumerate(asked):
            assert await task == [20 * n, 20 * n + 2]
        assert len(device.batches) == 2
        assert len(device.batches[1]) == 10

    batcher, _ = with_batcher(test)
    assert (batcher.tokens, batcher.calls, len(batcher.waiting)) == (0, 0, 0)


def test_one_larger_than_the_budget_goes_alone() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        await held(batcher, device)
        asked = asyncio.create_task(batcher.run(items(500, 2, 3), 30))
        await asyncio.sleep(0.02)
        device.gate.set()
        assert await asked == [0, 2, 4]
        assert device.batches[1:] == [[0], [1, 2]]

    with_batcher(test)


def test_lanes_do_not_mix() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        await held(batcher, device)
        other: Any = object()
        mixed = [*items(1, 1), *items(1, 1, lane=other, start=10)]
        mixed = [mixed[0], mixed[2], mixed[1], mixed[3]]
        asked = asyncio.create_task(batcher.run(mixed, 30))
        await asyncio.sleep(0.02)
        device.gate.set()
        assert await asked == [0, 20, 2, 22]
        assert device.batches[1:] == [[0, 1], [10, 11]]

    with_batcher(test)


def test_bounds_of_the_queue() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        first = await held(batcher, device)
        tasks = [asyncio.create_task(batcher.run(items(600), 30))]
        await asyncio.sleep(0)
        with pytest.raises(HttpError, match="too many tokens") as caught:
            await batcher.run(items(600), 30)
        assert (caught.value.status, caught.value.retry_after) == (429, 1)
        tasks.append(asyncio.create_task(batcher.run(items(1), 30)))
        await asyncio.sleep(0)
        with pytest.raises(HttpError, match="too many requests"):
            await batcher.run(items(1), 30)
        device.gate.set()
        await asyncio.gather(first, *tasks)

    with_batcher(test, queue_requests=3)


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        assert await batcher.run(items(900, 900), 30) == [0, 2]

    with_batcher(test)


def test_deadlines_and_departed_callers_are_dropped_when_popped() -> None:
    dropped: list[str] = []

    async def test(batcher: Batcher, device: Device) -> None:
        batcher.on_dropped = dropped.append

        first = await held(batcher, device)
        late = asyncio.create_task(batcher.run(items(1, start=1), 0.01))
        left = asyncio.create_task(batcher.run(items(1, start=2), 30, lambda: True))
        cancelled = asyncio.create_task(batcher.run(items(1, start=3), 30))
        good = asyncio.create_task(batcher.run(items(1, start=4), 30))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await asyncio.sleep(0)
        device.gate.set()
        assert await good == [8]
        await first
        with pytest.raises(HttpError) as caught:
            await late
        assert (caught.value.status, caught.value.code) == (503, "deadline")
        with pytest.raises(HttpError) as caught:
            await left
        assert caught.value.status == 499
        assert device.batches[1:] == [[4]]

    batcher, _ = with_batcher(test)
    assert sorted(dropped) == ["deadline", "gone"]
    assert (batcher.tokens, batcher.calls) == (0, 0)


def test_a_failed_batch_is_halved_until_the_bad_text_is_alone() -> None:
    async def test(batcher: Batcher, device: Device) -> None:
        first = await held(batcher, device)
        device.bad = {5}
        asked = [asyncio.create_task(batcher.run(items(1, start=n), 30)) for n in range(8)]
        await asyncio.sleep(0.02)
        device.gate.set()
        found = await asyncio.gather(first, *asked, return_exceptions=True)
        for n, result in enumerate(found[1:]):
            if n == 5:
                assert isinstance(result, HttpError)
                assert (result.status, result.code) == (503, "failed")
                assert "secret" not in result.message
            else:
                assert result == [2 * n]

    with_batcher(test)


def test_repeated_failure_is_told_once_and_forgotten_after_success() -> None:
    told: list[int] = []

    async def test(batcher: Batcher, device: Device) -> None:
        device.bad = set(range(100))

        async def fail(times: int) -> None:
            for _ in range(times):
                with pytest.raises(HttpError):
                    await batcher.run(items(1, 1), 30)

        await fail(FAILURES - 1)
        assert await batcher.run(items(1, start=500), 30) == [1000]
        await fail(FAILURES - 1)
        assert told == []
        await fail(3)
        assert told == [1]

    with_batcher(test, on_failing=lambda: told.append(1))


def test_a_batch_that_does_not_end_is_told_to_all_who_wait() -> None:
    told: list[int] = []

    async def test(batcher: Batcher, device: Device) -> None:
        first = await held(batcher, device)
        second = asyncio.create_task(batcher.run(items(1, 1), 30))
        for task in (first, second):
            with pytest.raises(HttpError) as caught:
                await task
            assert (caught.value.status, caught.value.code) == (503, "failing")
        assert (told, batcher.is_stuck, batcher.is_working) == ([1], True, False)
        with pytest.raises(HttpError, match="does not respond"):
            await batcher.run(items(1), 30)

    batcher, _ = with_batcher(test, batch_timeout=0.2, on_failing=lambda: told.append(1))
    assert (batcher.tokens, batcher.calls, len(batcher.waiting)) == (0, 0, 0)


def test_who_waits_at_the_end_is_told() -> None:
    async def main() -> None:
        device = Device()
        batcher = Batcher(device, 1, 1000, 50)
        first = await held(batcher, device)
        second = asyncio.create_task(batcher.run(items(5), 30))
        await asyncio.sleep(0.02)
        device.gate.set()
        await first
        batcher.stop()
        result = (await asyncio.gather(second, return_exceptions=True))[0]
        assert result == [0] or (isinstance(result, HttpError) and result.code == "draining")

    asyncio.run(asyncio.wait_for(main(), 20))


class Two:
    """A device of two shares: tells what began, on which thread, and ends it when told."""

    def __init__(self) -> None:
        self.begun: list[tuple[list[int], int, str]] = []
        self.gates: dict[int, threading.Event] = {}

    def __call__(self, lane: Any, works: Sequence[int], at_once: int) -> list[int]:
        gate = self.gates.setdefault(works[0], threading.Event())
        self.begun.append((list(works), at_once, threading.current_thread().name.partition("_")[0]))
        assert gate.wait(10)
        return [2 * work for work in works]

    def let(self, first: int) -> None:
        self.gates.setdefault(first, threading.Event()).set()

    async def has_begun(self, count: int) -> None:
        while len(self.begun) < count:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert len(self.begun) == count, self.begun


def with_two(test: Callable[[Batcher, Two], Awaitable[None]]) -> None:
    device = Two()

    async def main() -> None:
        batcher = Batcher(device, 100, 1000, 50, at_once=2)
        try:
            await asyncio.wait_for(test(batcher, device), 20)
        finally:
            for gate in device.gates.values():
                gate.set()
            batcher.stop()

    asyncio.run(main())


def test_where_much_waits_batches_run_side_by_side_and_do_not_wait_for_each_other() -> None:
    async def test(batcher: Batcher, device: Two) -> None:
        asked = asyncio.create_task(batcher.run(items(*[50] * 4), 30))
        await device.has_begun(2)
        device.let(1)
        await device.has_begun(3)  # the first goes on
        device.let(2)
        await device.has_begun(4)
        device.let(0)
        device.let(3)
        assert await asked == [0, 2, 4, 6]
        names = ["device 0", "device 1", "device 1", "device 1"]
        assert sorted(device.begun) == [([n], 2, name) for n, name in enumerate(names)]

    with_two(test)


def test_where_little_waits_a_batch_has_the_whole_device_and_its_first_thread() -> None:
    async def test(batcher: Batcher, device: Two) -> None:
        asked = [asyncio.create_task(batcher.run(items(20, 25), 30))]
        await device.has_begun(1)
        asked.append(asyncio.create_task(batcher.run(items(50, 50, start=10), 30)))
        await asyncio.sleep(0.02)
        await device.has_begun(1)  # nothing beside it
        device.let(0)
        await device.has_begun(3)
        device.let(10)
        asked.append(asyncio.create_task(batcher.run(items(1, start=20), 30)))
        await device.has_begun(4)  # the other still has its share alone
        device.let(11)
        device.let(20)
        await asyncio.gather(*asked)
        device.let(30)
        assert await batcher.run(items(1, start=30), 30) == [60]
        assert sorted(device.begun) == [
            ([0, 1], 1, "device 0"),
            ([10], 2, "device 0"),
            ([11], 2, "device 1"),
            ([20], 2, "device 0"),
            ([30], 1, "device 0"),
        ]

    with_two(test)


def test_a_short_text_passes_long_ones_that_fill_a_share() -> None:
    async def test(batcher: Batcher, device: Two) -> None:
        many = asyncio.create_task(batcher.run(items(*[50] * 6), 30))
        await device.has_begun(2)
        short = asyncio.create_task(batcher.run(items(2, start=90), 30))
        await asyncio.sleep(0.02)
        device.let(0)
        await device.has_begun(3)
        assert device.begun[2][0] == [2, 90]
        for first in range(1, 6):
            device.let(first)
        assert await short == [180]
        await many

    with_two(test)


def test_one_of_two_that_does_not_end_is_told_to_all() -> None:
    async def test(batcher: Batcher, device: Two) -> None:
        told: list[int] = []
        batcher.batch_timeout, batcher.on_failing = 0.2, lambda: told.append(1)
        asked = [asyncio.create_task(batcher.run(items(60, start=n), 30)) for n in range(3)]
        await device.has_begun(2)
        device.let(0)
        assert await asked[0] == [0]
        for task in asked[1:]:
            with pytest.raises(HttpError, match="does not respond"):
                await task
        await asyncio.sleep(0.25)  # the other hangs too
        assert told == [1]
        device.let(1)
        device.let(2)
        await asyncio.sleep(0.05)
        assert (batcher.tokens, batcher.calls, batcher.is_busy) == (0, 0, False)

    with_two(test)
