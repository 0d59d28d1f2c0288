"""How many threads compute at once, beside a machine whose cores others take and give back."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from bertwright.train.cpu_width import Width
from tests.raising import assert_names

Machine = Callable[[int], tuple[float, float]]
"""Threads -> tokens a second, and the cores' time that they get."""


def alone(threads: int) -> tuple[float, float]:
    return 1000.0 * threads, 0.95 * threads


def shared(threads: int) -> tuple[float, float]:
    """A process of another session has half of the cores: two threads wait for each other."""
    return (1000.0, 1.0) if threads == 1 else (500.0, 1.0)


def steps(width: Width, machine: Machine, number: int) -> list[int]:
    """The threads of so many steps of half a second."""
    widths = []
    for _ in range(number):
        widths.append(width.now)
        rate, cores = machine(width.now)
        width.measure(int(rate / 2), 0.5, cores / 2)
    return widths


def test_all_threads_where_they_have_their_cores() -> None:
    assert set(steps(Width(2), alone, 1000)) == {2}


def test_one_thread_beside_a_process_that_slows_two() -> None:
    said: list[str] = []
    widths = steps(Width(2, said.append), shared, 1000)
    assert widths[:4] == [2, 2, 1, 1]  # tried after a second
    assert widths.count(2) < 40  # and two again, ever more seldom
    (line,) = said
    assert_names(line, "1 of 2 threads", "1,000 tokens/s", "500")


def test_all_threads_again_when_the_other_process_has_ended() -> None:
    said: list[str] = []
    width = Width(2, said.append)
    steps(width, shared, 100)
    widths = steps(width, alone, 300)
    assert set(widths[-100:]) == {2}
    assert "2 of 2 threads" in said[-1]


def test_a_trial_in_vain_is_taken_back_and_made_more_seldom() -> None:
    """Two threads that share their cores are slowed no more than they should be."""
    widths = steps(Width(2), lambda threads: (900.0 * threads, 0.6 * threads), 1000)
    trials = [n for n in range(1, 1000) if widths[n] < widths[n - 1]]
    assert trials
    assert widths.count(1) < 50
    gaps = [b - a for a, b in itertools.pairwise(trials)]
    assert gaps == sorted(gaps)


def test_a_step_of_several_seconds_is_not_measured_alone() -> None:
    width = Width(2)
    width.measure(1000, 5.0, 5.0)
    assert width.now == 2
    width.measure(1000, 5.0, 5.0)
    assert width.now == 1
