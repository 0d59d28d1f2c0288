"""Rows of several owners, against one owner at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.nn.ragged import log_softmax, merge, owners_of, pack

COUNTS = [3, 1, 4, 2]


@pytest.fixture
def shuffled() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in any order, and the owner of each."""
    chance = torch.Generator().manual_seed(2)
    order = torch.randperm(sum(COUNTS), generator=chance)
    x = torch.randn(sum(COUNTS), 3, generator=chance) - 5  # all below 0, as no start value may show
    return x, owners_of(COUNTS)[order]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_merge(shuffled: tuple[torch.Tensor, torch.Tensor], how: str) -> None:
    x, owners = shuffled
    parts = [x[owners == owner] for owner in range(4)]
    expected = torch.stack([p.mean(0) if how == "mean" else p.amax(0) for p in parts])
    torch.testing.assert_close(merge(x, owners, 4, how), expected)
    x = x.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: merge(x, owners, 4, how), x)


def test_log_softmax(shuffled: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, owners = shuffled
    x = x.clone()
    x[0] = 300.0  # exp of it is no float32
    logs = log_softmax(x, owners, 4)
    for owner in range(4):
        rows = owners == owner
        torch.testing.assert_close(logs[rows], x[rows].log_softmax(0))
    x = shuffled[0].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_softmax(x, owners, 4), x)


@given(st.lists(st.integers(0, 5), max_size=7))
@settings(max_examples=60)
def test_packing(counts: list[int]) -> None:
    packing = pack(counts, "cpu")
    rows = [(owner, place) for owner, count in enumerate(counts) for place in range(count)]
    packed = [rows[row] for row in packing.order.tolist()]
    assert [packed[row] for row in packing.inverse.tolist()] == rows
    owners = packing.owners.tolist()
    assert sorted(owners) == [owner for owner, count in enumerate(counts) if count]
    expected = [
        (owner, place)
        for place in range(max(counts, default=0))
        for owner in owners
        if place < counts[owner]
    ]
    assert packed == expected
    assert packing.sizes == [
        sum(count > place for count in counts) for place in range(max(counts, default=0))
    ]
