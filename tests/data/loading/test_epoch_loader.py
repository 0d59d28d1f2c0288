"""Steps: every instance once, the same for any rank and any cut, without a history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.shards import Shards
from bertwright.data.split import split_documents
from bertwright.errors import ConfigError
from bertwright.models.bert.config import BertRun, InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_pairs import MaskedPairs
from bertwright.models.bert.system import held_out

MakeShards = Callable[..., Shards]
CONFIG = InstanceConfig(sequence_length=40)


def make_data(shards: Shards, **options: object) -> EpochLoader[MaskedBatch]:
    instances = MaskedPairs(shards, CONFIG, MaskingConfig(), validation_fraction=0.0, seed=3)
    return EpochLoader(instances, **options)


def by_position(batches: list[MaskedBatch]) -> dict[int, tuple[list[int], list[int], int]]:
    """position -> (ids as shown, positions of predictions, label)."""
    found = {}
    for batch in batches:
        assert batch.next_sentence_labels is not None
        for row, position in enumerate(batch.instances.tolist()):
            start, stop = batch.inputs.sequences.offsets[row : row + 2]
            places = batch.masked_positions
            inside = places[(places >= start) & (places < stop)] - start
            ids = batch.inputs.ids[start:stop].tolist()
            label = int(batch.next_sentence_labels[row])
            assert position not in found
            found[position] = (ids, inside.tolist(), label)
    return found


def test_an_epoch_holds_every_instance_once(shards: Shards) -> None:
    data = make_data(shards)
    steps = data.steps_in_epoch(0, 1000)
    tokens = []
    seen: list[int] = []
    for step in range(steps):
        batches = data.step(0, step, 1000, 400)
        tokens.append(sum(batch.num_tokens for batch in batches))
        assert max(batch.num_tokens for batch in batches) <= 400 + 2 * 40
        seen.extend(position for batch in batches for position in batch.instances.tolist())
    assert sorted(seen) == list(range(data.sequences_in_epoch(0)))
    assert sum(tokens) == data.tokens_in_epoch(0)
    assert max(tokens) - min(tokens) <= 2 * 40
    assert max(tokens) <= 1000 + 40


def test_a_step_in_one_micro_batch_stays_one(shards: Shards) -> None:
    data = make_data(shards)
    for step in range(data.steps_in_epoch(0, 1000)):
        assert len(data.step(0, step, 1000, 1000)) == 1


def test_ranks_and_micro_batches_change_nothing(shards: Shards) -> None:
    alone = by_position(make_data(shards).step(1, 2, 2000, 4000))
    shared = []
    for rank in range(3):
        mine = make_data(shards, rank=rank, world_size=3).step(1, 2, 2000, 300)
        assert abs(sum(batch.num_tokens for batch in mine) - 2000 / 3) < 80
        shared.extend(mine)
    assert by_position(shared) == alone


def test_any_step_is_reached_at_once(shards: Shards) -> None:
    walked = make_data(shards)
    for step in range(5):
        expected = walked.step(2, step, 1000, 500)
    assert by_position(make_data(shards).step(2, 4, 1000, 500)) == by_position(expected)


def test_masks_are_new_every_epoch_and_seed(make_shards: MakeShards) -> None:
    shards = make_shards([[30]])  # one instance, the same in every plan
    instances = InstanceConfig("mlm", sequence_length=40, short_probability=0.0)

    def hidden(seed: int, epoch: int) -> list[int]:
        data = EpochLoader(
            MaskedPairs(shards, instances, MaskingConfig(), validation_fraction=0.0, seed=seed)
        )
        (batch,) = data.step(epoch, 0, 99, 99)
        return batch.masked_positions.tolist()

    assert hidden(3, 0) == hidden(3, 0)
    assert hidden(3, 0) != hidden(3, 1)
    assert hidden(3, 0) != hidden(4, 0)


def test_every_run_is_judged_on_the_same_masks(shards: Shards) -> None:
    """Of the paper's share, whatever the seed and the share that the run learns with."""
    found = []
    for seed, share in ((1, 0.15), (2, 0.4)):
        run = BertRun("data", "run", steps=1, seed=seed, masking=MaskingConfig(share))
        instances = held_out(run, shards, "dev", 0)
        found.append(by_position(EpochLoader(instances).step(0, 0, 9999, 9999)))
    assert found[0] == found[1]


def test_held_out_documents_are_apart_and_stay(shards: Shards) -> None:
    train = split_documents(shards, "train", 0.2)
    dev, more = (split_documents(shards, "dev", share) for share in (0.2, 0.4))
    assert sorted(np.concatenate([train, dev]).tolist()) == list(range(60))
    assert 0 < len(dev) < 30
    assert set(dev.tolist()) < set(more.tolist())


def test_fewer_sequences_than_ranks(make_shards: MakeShards) -> None:
    shards = make_shards([[5], [5]])
    held = [make_data(shards, rank=rank, world_size=4).step(0, 0, 999, 999) for rank in range(4)]
    assert [len(batches) for batches in held] == [1, 1, 0, 0]


def test_messages(shards: Shards, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"micro_batch_tokens is 39; .*40"):
        make_data(shards).step(0, 0, 500, 39)
    with pytest.raises(ConfigError, match="rank is 2"):
        make_data(shards, rank=2, world_size=2)
