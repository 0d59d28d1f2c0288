"""Masked pairs: [CLS] A [SEP] B [SEP], its segments, its masks, whole words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bertwright.data.randomness import make_key
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_pairs import MaskedPairs, assemble, masker_of
from bertwright.models.bert.sentence_pairs import plan_epoch
from tests.data.conftest import SPECIAL

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
