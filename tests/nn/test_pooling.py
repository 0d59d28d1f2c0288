"""Pooling looks at one sequence at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bertwright.errors import ConfigError
from bertwright.nn.features import pool, pool_segments
from bertwright.nn.sequences import Sequences

LENGTHS = [5, 3, 3, 1, 4]


BY_HAND = {
    "mean": lambda part: part.mean(0),
    "mean-sqrt": lambda part: part.sum(0) / len(part) ** 0.5,
    "max": lambda part: part.max(0).values,
    "cls": lambda part: part[0],
    "last": lambda part: part[-1],
    "weighted": lambda part: weighted(part, 0),
}


def weighted(part: Tensor, start: int) -> Tensor:
    """The mean of a window, a token's place in the text its weight."""
    places = torch.arange(start + 1.0, start + len(part) + 1)
    return (places[:, None] * part).sum(0) / places.sum()


@pytest.mark.parametrize("pooling", BY_HAND)
def test_against_one_by_one(pooling: str) -> None:
    x = torch.randn(sum(LENGTHS), 7)
    expected = torch.stack([BY_HAND[pooling](part) for part in x.split(LENGTHS)])
    torch.testing.assert_close(pool(x, Sequences(LENGTHS), pooling), expected)


def test_places_of_windows_count_on() -> None:
    x, starts = torch.randn(sum(LENGTHS), 7), [0, 4, 9, 2, 5]
    parts = zip(x.split(LENGTHS), starts, strict=True)
    expected = torch.stack([weighted(part, start) for part, start in parts])
    torch.testing.assert_close(pool(x, Sequences(LENGTHS), "weighted", starts), expected)


@pytest.mark.parametrize("pooling", BY_HAND)
@pytest.mark.parametrize("starts", [[0] * len(LENGTHS), [0, 4, 9, 2, 5]])
def test_all_at_once_as_on_a_gpu(pooling: str, starts: list[int]) -> None:
    x, sequences = torch.randn(sum(LENGTHS), 7), Sequences(LENGTHS)
    found = pool_segments(x, sequences, pooling, starts)
    torch.testing.assert_close(found, pool(x, sequences, pooling, starts))


def test_several_stand_side_by_side() -> None:
    x, sequences = torch.randn(sum(LENGTHS), 7), Sequences(LENGTHS)
    expected = torch.cat([pool(x, sequences, each) for each in ("last", "max", "weighted")], 1)
    torch.testing.assert_close(pool(x, sequences, "last+max+weighted"), expected)
    both = pool(x, sequences, "mean-max")
    torch.testing.assert_close(both, pool(x, sequences, "mean+max"))
    for pooling in ("cls+none", "first-last+mean", "cls+", "+"):
        with pytest.raises(ConfigError, match=r"pooling.*cls"):
            pool(x, sequences, pooling)


def test_result_is_float32() -> None:
    x = torch.randn(sum(LENGTHS), 7, dtype=torch.bfloat16)
    for pooling in ("mean", "max", "cls"):
        assert pool(x, Sequences(LENGTHS), pooling).dtype == torch.float32


def test_unknown_pooling() -> None:
    with pytest.raises(ConfigError, match=r"'sum'.*cls, mean, max"):
        pool(torch.zeros(1, 1), Sequences([1]), "sum")
