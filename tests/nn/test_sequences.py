"""Bounds of packed sequences, against the plain way of counting them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.nn.sequences import Sequences

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@given(LENGTHS)
@settings(max_examples=100)
def test_against_counting(lengths: list[int]) -> None:
    sequences = Sequences(lengths)
    positions = [place for length in lengths for place in range(length)]
    index = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert sequences.count == len(lengths)
    assert sequences.total == sum(lengths)
    assert sequences.longest == max(lengths)
    assert sequences.positions.tolist() == positions
    assert sequences.index.tolist() == index
    assert sequences.first.tolist() == [p for p, place in enumerate(positions) if place == 0]
    assert sequences.cu_seqlens.tolist() == [*sequences.first.tolist(), sum(lengths)]
    assert sequences.cu_seqlens.dtype == torch.int32


@given(LENGTHS)
@settings(max_examples=100)
def test_groups_cover_every_token_once(lengths: list[int]) -> None:
    groups = Sequences(lengths).groups
    assert [length for g in groups for length in [g.length] * g.count] == lengths
    assert groups[0].start == 0
    assert groups[-1].stop == sum(lengths)
    for group, following in pairwise(groups):
        assert group.stop == following.start
        assert group.length != following.length
    assert all(g.stop - g.start == g.count * g.length for g in groups)


@pytest.mark.parametrize("lengths", [[], [3, 0, 2], [-1]])
def test_wrong_lengths(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Sequences(lengths)


def test_lengths_may_be_an_array() -> None:
    for lengths in (np.array([3, 1]), torch.tensor([3, 1]), (3, 1)):
        assert Sequences(lengths).lengths == [3, 1]


def test_what_layers_share_is_made_once() -> None:
    sequences = Sequences([3, 1])
    made = sequences.once("key", list)
    assert sequences.once("key", list) is made
    assert sequences.once("another", list) is not made
