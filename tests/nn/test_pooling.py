"""Pooling looks at one sequence at a time."""

from __future__ import annotations

import pytest
import torch

from bertwright.errors import ConfigError
from bertwright.nn.pooling import Pooling, pool
from bertwright.nn.sequences import Sequences

LENGTHS = [5, 3, 3, 1, 4]


@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_against_one_by_one(pooling: Pooling) -> None:
    x = torch.randn(sum(LENGTHS), 7)
    by_hand = {
        "mean": lambda part: part.mean(0),
        "max": lambda part: part.max(0).values,
        "cls": lambda part: part[0],
    }[pooling]
    expected = torch.stack([by_hand(part) for part in x.split(LENGTHS)])
    torch.testing.assert_close(pool(x, Sequences(LENGTHS), pooling), expected)


def test_result_is_float32() -> None:
    x = torch.randn(sum(LENGTHS), 7, dtype=torch.bfloat16)
    for pooling in ("mean", "max", "cls"):
        assert pool(x, Sequences(LENGTHS), pooling).dtype == torch.float32


def test_unknown_pooling() -> None:
    with pytest.raises(ConfigError, match="pooling is 'sum'; expected cls, mean, max"):
        pool(torch.zeros(1, 1), Sequences([1]), "sum")  # type: ignore[arg-type]
