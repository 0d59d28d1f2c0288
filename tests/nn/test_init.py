"""Truncated normal weights, zero biases and norms of one."""

from __future__ import annotations

import torch
from torch import nn

from bertwright.nn.init import initialize


def test_published_start() -> None:
    module = nn.Sequential(nn.Embedding(300, 40), nn.Linear(40, 50), nn.LayerNorm(50))
    for parameter in module.parameters():
        nn.init.constant_(parameter, 3.0)
    initialize(module, 0.02, torch.Generator().manual_seed(0))
    for weight in (module[0].weight, module[1].weight):
        assert weight.abs().max() <= 0.04
        assert abs(weight.mean()) < 0.001
        assert 0.016 < weight.std() < 0.019  # 0.02, cut at two deviations
    assert module[1].bias.abs().max() == 0
    assert module[2].bias.abs().max() == 0
    assert (module[2].weight == 1).all()


def test_a_seed_gives_the_same_again() -> None:
    first, second = nn.Linear(5, 3), nn.Linear(5, 3)
    initialize(first, 0.02, torch.Generator().manual_seed(8))
    initialize(second, 0.02, torch.Generator().manual_seed(8))
    assert torch.equal(first.weight, second.weight)


def test_no_deviation_is_zeros() -> None:
    linear = nn.Linear(5, 3)
    initialize(linear, 0.0, torch.Generator().manual_seed(0))
    assert not linear.weight.any()
