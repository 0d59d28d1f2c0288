"""Dropout: its share, its scale, its gradient, and that it rests when not training."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.nn.layers.cpu_dropout import keep_mask
from bertwright.nn.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_share_and_scale(share: float) -> None:
    torch.manual_seed(4)
    count = 200_003  # no multiple of four
    out = Dropout(share)(torch.ones(count))
    dropped = (out == 0).sum().item() / count
    assert abs(dropped - share) < 5 * math.sqrt(share * (1 - share) / count) + 1 / 65536
    kept = out[out != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - share)))
    assert abs(out.mean().item() - 1) < 5 * math.sqrt(share / (1 - share) / count) + 1e-4


def test_neighbours_are_independent() -> None:
    torch.manual_seed(5)
    kept = (keep_mask(torch.empty(400_000), 0.5) > 0).float() - 0.5
    for step in (1, 2, 3, 4, 8):
        correlation = (kept[step:] * kept[:-step]).mean().item() * 4
        assert abs(correlation) < 5 / math.sqrt(400_000)


def test_gradient_passes_where_numbers_passed() -> None:
    x = torch.randn(37, 11, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(out == 0, 0.0, 1 / 0.6))


def test_rests_in_eval_mode() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.9).eval()(x) is x


def test_a_seed_gives_the_same_again() -> None:
    x = torch.randn(9, 13)
    torch.manual_seed(6)
    first = Dropout(0.3)(x)
    torch.manual_seed(6)
    assert torch.equal(first, Dropout(0.3)(x))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from(["f4", "bf2"]))
@settings(max_examples=30)
def test_any_shape(shape: list[int], kind: str) -> None:
    dtype = torch.float32 if kind == "f4" else torch.bfloat16
    out = Dropout(0.2)(torch.ones(shape, dtype=dtype))
    assert list(out.shape) == shape
    assert out.dtype == dtype
