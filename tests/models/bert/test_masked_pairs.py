"""Masked pairs: [CLS] A [SEP] B [SEP], its segments, its masks, whole words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.randomness import make_key
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_pairs import MaskedPairs, assemble, masker_of
from bertwright.models.bert.sentence_pairs import plan_epoch
from tests.data.conftest import SPECIAL, write_shards

MakeShards = Callable[..., Shards]


@pytest.mark.parametrize("role", ["cls", "sep", "mask"])
def test_a_vocabulary_without_a_special_token_is_named(make_shards: MakeShards, role: str) -> None:
    special = {name: number for name, number in SPECIAL.items() if name != role}
    shards = make_shards([[9, 9]] * 9, special=special)
    with pytest.raises(DataError, match=rf"\[{role.upper()}\].*tokenizer"):
        MaskedPairs(shards, InstanceConfig(), MaskingConfig(), validation_fraction=0)


def test_layout_of_every_objective(make_shards: MakeShards, some_lengths: list[list[int]]) -> None:
    shards = make_shards(some_lengths, shard_tokens=5000)
    for objectives in ("mlm", "mlm+nsp", "mlm+sop"):
        config = InstanceConfig(objectives=objectives, sequence_length=40)
        plan = plan_epoch(shards, np.arange(60), config, 0, 0)
        positions = np.arange(20, 70)
        masker = masker_of(shards, MaskingConfig(probability=0.2), 40)
        batch = assemble(shards, plan, positions, masker, make_key("masks"))
        assert batch.masking_probability == 0.2
        assert sorted(batch.instances.tolist()) == positions.tolist()
        lengths = batch.inputs.sequences.lengths
        assert lengths == sorted(lengths, reverse=True)
        assert batch.num_tokens == sum(lengths) == len(batch.inputs.ids)
        ids = batch.restored().inputs.ids
        segments = batch.inputs.segments
        offsets = batch.inputs.sequences.offsets
        for row, position in enumerate(batch.instances.tolist()):
            sequence = slice(*offsets[row : row + 2])
            a = shards.tokens(plan.a_start[position], plan.a_stop[position]).tolist()
            b = shards.tokens(plan.b_start[position], plan.b_stop[position]).tolist()
            paired = objectives != "mlm"
            expected = [2, *a, 3, *b, 3] if paired else [2, *a, 3]
            assert ids[sequence].tolist() == expected
            types = [0] * (len(a) + 2) + ([1] * (len(b) + 1) if paired else [])
            assert (types if segments is None else segments[sequence].tolist()) == types
            assert (segments is None) == (not paired)
            if batch.next_sentence_labels is None:
                assert not paired
            else:
                assert batch.next_sentence_labels[row] == plan.is_random[position]


def test_whole_word_masking_reads_the_word_bits(
    make_shards: MakeShards, some_lengths: list[list[int]]
) -> None:
    shards = make_shards(some_lengths, word_every=3, shard_tokens=5000, documents_per_block=3)
    plan = plan_epoch(shards, np.arange(60), InstanceConfig(objectives="mlm"), 0, 0)
    masker = masker_of(shards, MaskingConfig(whole_word=True), 128)
    batch = assemble(shards, plan, np.arange(40), masker, make_key("masks"))
    sequences, instances = batch.inputs.sequences, batch.instances.numpy()
    row = sequences.index[batch.masked_positions].numpy()
    within = sequences.positions[batch.masked_positions].numpy()
    place = plan.a_start[instances[row]] + within - 1
    words = place // 3
    for position in set(row.tolist()):
        first = plan.a_start[instances[position]]
        last = plan.a_stop[instances[position]]
        found = words[row == position]
        for word in set(found.tolist()):
            inside = min(3 * word + 3, last) - max(3 * word, first)
            assert (found == word).sum() == inside


BATCHES = {
    ("mlm", False, 0): "13036bf4b6e15035",
    ("mlm", False, 1): "5541597ed0a9b118",
    ("mlm", True, 0): "25cf3d535063abf7",
    ("mlm", True, 1): "7f08dc92e6448515",
    ("mlm+nsp", False, 0): "35d842d145799502",
    ("mlm+nsp", False, 1): "5da66edca7f6d8a7",
    ("mlm+nsp", True, 0): "7291375b4e508232",
    ("mlm+nsp", True, 1): "4da590e233832ff2",
    ("mlm+sop", False, 0): "a2354616de9da830",
    ("mlm+sop", False, 1): "0a8a2bbc8b0d27ac",
    ("mlm+sop", True, 0): "9505fa5546f17906",
    ("mlm+sop", True, 1): "8b11c5ddf32c17b9",
}
"""Objectives, whole words, rank of 2 -> a hash of the batches of some steps."""


@pytest.mark.parametrize(("objectives", "whole_word", "rank"), BATCHES)
def test_steps_train_on_what_they_always_did(
    tmp_path: Path, objectives: Any, whole_word: bool, rank: int
) -> None:
    """A run that an earlier version began goes on with the same data."""
    rng = np.random.default_rng(1)
    lengths = [rng.integers(1, 60, size=rng.integers(1, 40)).tolist() for _ in range(60)]
    instances = MaskedPairs(
        write_shards(tmp_path, lengths, word_every=3),
        InstanceConfig(objectives=objectives, sequence_length=64),
        MaskingConfig(whole_word=whole_word),
        validation_fraction=0.1,
        seed=5,
    )
    loader = EpochLoader(instances, rank, 2)
    steps = [loader.step(epoch, step, 4096, 1024) for epoch, step in ((0, 0), (0, 1), (1, 3))]
    found = "".join(hash_of(batch) for batches in steps for batch in batches)
    expected = BATCHES[objectives, whole_word, rank]
    assert hashlib.sha256(found.encode()).hexdigest()[:16] == expected


def hash_of(batch: MaskedBatch) -> str:
    """Return a hash of the names and the numbers of a batch."""
    inputs = batch.inputs
    segments = torch.zeros_like(inputs.ids) if inputs.segments is None else inputs.segments
    arrays = {
        "input_ids": inputs.ids,
        "token_type_ids": segments,
        "lengths": inputs.sequences.lengths,
        "masked_positions": batch.masked_positions,
        "masked_labels": batch.masked_labels,
        "next_sentence_labels": batch.next_sentence_labels,
        "positions": batch.instances,
    }
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(b"-" if array is None else np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()[:16]
