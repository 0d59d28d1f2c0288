"""Sequences laid end to end, and which sequences go together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.data.batch import collate, token_batches
from bertwright.nn.batch import Batch
from bertwright.nn.sequences import Inputs


def test_collate_sorts_and_says_how() -> None:
    sequences = [[2, 7, 3], [2, 7, 8, 9, 3], [2, 3]]
    inputs, order = collate(sequences, [[0, 0, 0], [0, 0, 0, 1, 1], [0, 0]])
    assert inputs.ids.tolist() == [2, 7, 8, 9, 3, 2, 7, 3, 2, 3]
    assert inputs.segments is not None
    assert inputs.segments.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert inputs.sequences.lengths == [5, 3, 2]
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
    with pytest.raises(ValueError, match="one or more"):
        collate([])


@dataclass(frozen=True)
class Labelled(Batch):
    labels: Tensor
    target: Inputs
    missing: Tensor | None = None


def test_a_batch_goes_to_a_device_whole() -> None:
    inputs, _ = collate([[1, 2], [3, 4, 5]], [[0, 1], [0, 0, 1]])
    batch = Labelled(inputs, torch.tensor([1, 0]), collate([[7]])[0], task="head")
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    assert isinstance(moved, Labelled)
    on = {moved.inputs.ids, moved.inputs.segments, moved.labels, moved.target.ids}
    assert {x.device.type for x in on if x is not None} == {"meta"}
    assert moved.inputs.sequences.positions.device.type == "meta"
    assert moved.inputs.sequences.lengths == [3, 2]
    assert (moved.task, moved.missing, moved.num_tokens) == ("head", None, 5)


def test_batches_by_tokens() -> None:
    assert list(token_batches([3, 9, 1, 4], 8)) == [[1], [3, 0, 2]]
    assert list(token_batches([], 8)) == []
