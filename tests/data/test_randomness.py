"""Draws are functions of their counters, even, and what they claim to be."""

from __future__ import annotations

import numpy as np

from bertwright.data.randomness import below, fair_coins, make_key, mix, permutation, uniform


def test_draws_do_not_change_between_versions() -> None:
    """Plans of old runs depend on these; the numbers are SplitMix64's for seed 0."""
    assert mix(np.uint64(0), np.arange(3)).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
    assert make_key("order", 1, 2) == make_key("order", 1, 2)
    assert make_key("order", 1, 2) != make_key("order", 12)


def test_a_draw_does_not_depend_on_its_neighbours() -> None:
    key = make_key("x", 3)
    assert mix(key, np.arange(100))[37] == mix(key, 37)[0]


def test_uniform_is_even() -> None:
    draws = uniform(mix(make_key("even"), np.arange(100_000)))
    assert 0 <= draws.min() < draws.max() < 1
    heights, _ = np.histogram(draws, 20, (0, 1))
    assert abs(heights - 5000).max() < 5 * 5000**0.5


def test_below_reaches_every_number_and_no_other() -> None:
    draws = below(mix(make_key("dice"), np.arange(1000)), 6)
    assert sorted(set(draws.tolist())) == [0, 1, 2, 3, 4, 5]


def test_permutation_holds_each_number_once() -> None:
    order = permutation(make_key("order", 7), 1000)
    assert sorted(order.tolist()) == list(range(1000))
    assert (order != np.arange(1000)).mean() > 0.9


def test_fair_coins_are_binomial() -> None:
    for throws in (1, 7, 64, 65, 300):
        keys = mix(make_key("coins", throws), np.arange(20_000))
        heads = fair_coins(keys, np.full(20_000, throws))
        assert heads.min() >= 0
        assert heads.max() <= throws
        assert abs(heads.mean() - throws / 2) < 5 * (throws / 4 / 20_000) ** 0.5
        assert abs(heads.var() / (throws / 4) - 1) < 0.06


def test_fair_coins_of_none_and_very_many() -> None:
    keys = mix(make_key("coins"), np.arange(3))
    heads = fair_coins(keys, np.array([0, 1, 1_000_000]))
    assert heads[0] == 0
    assert abs(int(heads[2]) - 500_000) < 1000
