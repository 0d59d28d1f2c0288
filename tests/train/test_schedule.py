"""The learning rate's factor over a run of steps or of seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bertwright.config.run import ScheduleConfig
from bertwright.train.schedule import (
    Budget,
    inverse_square_root,
    rate_factor,
    slanted_triangular,
    warmup_decay,
)

SHARES = some.floats(0, 1)
WARMUPS = some.just(0.0) | some.floats(1e-4, 0.99)


@given(some.integers(1, 300), WARMUPS)
def test_over_steps_it_rises_then_falls_and_is_never_zero(steps: int, warmup: float) -> None:
    budget = Budget(steps=steps)
    factors = [warmup_decay(budget.done(s, 0.0), warmup, 1 / steps) for s in range(steps)]
    assert all(0 < factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    for step, factor in enumerate(factors):
        if step / steps < warmup:
            assert factor == pytest.approx(min(1, (step + 1) / steps / warmup))


@given(SHARES, WARMUPS)
def test_over_time_it_is_two_lines(done: float, warmup: float) -> None:
    factor = warmup_decay(done, warmup)
    expected = done / warmup if done < warmup else (1 - done) / (1 - warmup)
    assert factor == pytest.approx(expected)
    assert 0 <= factor <= 1


@given(some.floats(1, 9), WARMUPS)
def test_after_the_end_it_is_zero(done: float, warmup: float) -> None:
    assert warmup_decay(done, warmup) == 0


@given(SHARES, SHARES, WARMUPS)
def test_it_has_no_jump(done: float, other: float, warmup: float) -> None:
    steepest = 1 / min(warmup or 1, 1 - warmup)
    change = abs(warmup_decay(done, warmup) - warmup_decay(other, warmup))
    assert change <= steepest * abs(done - other) + 1e-9


def test_the_curve_of_a_run() -> None:
    linear, slanted = ScheduleConfig(warmup=0.25), ScheduleConfig(warmup=0.25, curve="slanted")
    for done in (0.0, 0.1, 0.25, 0.7, 0.99):
        assert rate_factor(linear, done, 0.01) == warmup_decay(done, 0.25, 0.01)
        assert rate_factor(slanted, done, 0.01) == slanted_triangular(done, 0.25)
    assert rate_factor(slanted, 0.0, 0.01) == 1 / 32


def test_as_the_paper_has_it() -> None:
    """A million steps, the first ten thousand of them rising."""
    budget = Budget(steps=1_000_000)
    for step, factor in {0: 1e-4, 4_999: 0.5, 9_999: 1, 10_000: 1, 505_000: 0.5}.items():
        assert warmup_decay(budget.done(step, 0.0), 0.01, 1e-6) == pytest.approx(factor)


@given(some.integers(1, 1000), some.integers(0, 1000), some.floats(0, 1e5))
def test_what_is_left_of_steps(steps: int, step: int, seconds: float) -> None:
    left = Budget(steps=steps).left(min(step, steps), seconds)
    if step == 0:
        assert left is None
    elif step >= steps:
        assert left == 0
    else:
        assert left == pytest.approx(seconds / step * (steps - step))


def test_preparing_and_other_sessions_are_no_stepping() -> None:
    budget = Budget(steps=100)
    assert budget.left(10, 35, since=(0, 30)) == 45
    assert budget.left(60, 1010, since=(50, 1000)) == 40
    assert budget.left(50, 1000, since=(50, 1000)) is None


def test_what_is_left_of_seconds() -> None:
    budget = Budget(seconds=60)
    assert budget.done(5, 15) == 0.25
    assert budget.left(5, 15) == 45
    assert budget.left(5, 61) == 0


def test_a_run_of_steps_in_a_time_ends_with_the_first_of_both() -> None:
    budget = Budget(steps=100, seconds=60)
    assert budget.done(50, 6) == 0.5
    assert budget.done(50, 45) == 0.75
    assert budget.done(10, 61) == budget.done(100, 1) == 1
    assert budget.left(0, 0) == 60
    assert budget.left(50, 6) == 6
    assert budget.left(10, 30) == 30
    assert Budget(steps=100, seconds=-1).done(1, 0) == 1


@given(some.integers(1, 300), some.floats(0.01, 0.99))
def test_the_inverse_square_root_is_the_papers(steps: int, warmup: float) -> None:
    """Equation 3 of Vaswani et al. 2017 in steps, over its own peak."""
    warm = warmup * steps
    for step in range(1, steps + 1):
        factor = inverse_square_root((step - 1) / steps, warmup, 1 / steps)
        expected = min(step**-0.5, step * warm**-1.5) / warm**-0.5
        assert factor == pytest.approx(expected)
