"""Small work beside the event loop: in order, together, errors to whom they belong."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from bertwright.serve.aside import MOST, Aside


def test_results_and_errors_go_to_their_askers() -> None:
    async def ask() -> None:
        aside = Aside("test")
        given = await asyncio.gather(
            aside.run(divmod, 7, 2),
            aside.run(int, "x"),
            aside.run(int, "5"),
            return_exceptions=True,
        )
        assert given[0] == (3, 1)
        assert isinstance(given[1], ValueError)
        assert given[2] == 5
        aside.stop()

    asyncio.run(ask())


def test_it_works_beside_the_loop_and_in_order() -> None:
    async def ask() -> None:
        aside, order = Aside("test"), []
        go = threading.Event()

        def work(number: int) -> str:
            go.wait(10)
            order.append(number)
            return threading.current_thread().name

        asked = [asyncio.create_task(aside.run(work, n)) for n in range(2 * MOST + 3)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in asked)  # and the loop goes on
        go.set()
        assert set(await asyncio.gather(*asked)) == {"test"}
        assert order == sorted(order)
        aside.stop()

    asyncio.run(ask())


def test_a_caller_who_left_costs_the_others_nothing() -> None:
    async def ask() -> None:
        aside, go = Aside("test"), threading.Event()
        first = asyncio.create_task(aside.run(go.wait, 10))
        left = asyncio.create_task(aside.run(int, "1"))
        stays = asyncio.create_task(aside.run(int, "2"))
        await asyncio.sleep(0.02)
        left.cancel()
        go.set()
        assert await asyncio.wait_for(stays, 10) == 2
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await left
        aside.stop()

    asyncio.run(ask())


def test_stopping_does_what_waits_first() -> None:
    async def ask() -> None:
        aside, go = Aside("test"), threading.Event()
        tasks = [asyncio.create_task(aside.run(go.wait, 10))]
        tasks += [asyncio.create_task(aside.run(int, "3")) for _ in range(MOST + 5)]
        await asyncio.sleep(0.02)
        go.set()
        await asyncio.to_thread(aside.stop)
        assert (await asyncio.gather(*tasks))[1:] == [3] * (MOST + 5)

    asyncio.run(ask())


def test_nothing_of_a_piece_is_kept() -> None:
    """A model that was changed for another would stay in memory until its thread worked again."""

    class Large:
        pass

    async def both() -> None:
        aside, large = Aside("test"), Large()
        seen = weakref.ref(large)
        assert await aside.run(lambda given: given is not None, large)
        del large
        for _ in range(100):
            if seen() is None:
                break
            await asyncio.sleep(0.02)
        assert seen() is None
        aside.stop()

    asyncio.run(both())
