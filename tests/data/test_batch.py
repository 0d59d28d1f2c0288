"""Sequences laid end to end, and which sequences go together."""

from __future__ import annotations

import numpy as np
import torch

from bertwright.data.batch import collate, token_batches
from bertwright.data.to_device import inputs_to_device


def test_collate_sorts_and_says_how() -> None:
    sequences = [[2, 7, 3], [2, 7, 8, 9, 3], [2, 3]]
    inputs, order = collate(sequences, [[0, 0, 0], [0, 0, 0, 1, 1], [0, 0]])
    assert inputs.ids.tolist() == [2, 7, 8, 9, 3, 2, 7, 3, 2, 3]
    assert inputs.segments is not None
    assert inputs.segments.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert inputs.lengths.tolist() == [5, 3, 2]
    assert order.tolist() == [1, 0, 2]
    assert collate(sequences)[0].segments is None


def test_several_ids_a_token() -> None:
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 9, (length, 4)) for length in (2, 5)]
    inputs, order = collate(sequences)
    assert inputs.ids.shape == (7, 4)
    assert inputs.ids.tolist() == [*sequences[1].tolist(), *sequences[0].tolist()]
    assert order.tolist() == [1, 0]


def test_collate_of_nothing() -> None:
    inputs, order = collate([])
    assert len(inputs.lengths) == len(inputs.ids) == len(order) == 0


def test_on_a_device() -> None:
    inputs = inputs_to_device(collate([[1, 2], [3, 4, 5]], [[0, 1], [0, 0, 1]])[0], "cpu")
    assert inputs.ids.dtype == torch.int64
    assert inputs.ids.tolist() == [3, 4, 5, 1, 2]
    assert inputs.segments is not None
    assert inputs.segments.tolist() == [0, 0, 1, 0, 1]
    assert inputs.sequences.lengths == [3, 2]


def test_batches_by_tokens() -> None:
    assert list(token_batches([3, 9, 1, 4], 8)) == [[1], [3, 0, 2]]
    assert list(token_batches([], 8)) == []
