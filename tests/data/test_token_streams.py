"""Windows of documents: every token but the first is predicted once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.shards import Shards, open_shards
from bertwright.data.token_streams import TokenStreams
from bertwright.nn.encoder import Encoded
from bertwright.nn.outputs.next_token import NextToken
from tests.small_runs import build_data

DOCUMENTS = np.array([0, 3, 4, 11])


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return open_shards(build_data(tmp_path_factory.mktemp("data")))


def framed(shards: Shards) -> list[list[int]]:
    starts = shards.sentence_tokens[shards.document_sentences]
    ends = shards.special["cls"], shards.special["sep"]
    return [
        [ends[0], *shards.tokens(starts[d], starts[d + 1]).tolist(), ends[1]] for d in DOCUMENTS
    ]


@pytest.mark.parametrize(("length", "burn_in"), [(2, 0), (7, 0), (20, 0), (20, 6), (9999, 3)])
def test_each_token_is_predicted_once_from_the_one_before(
    shards: Shards, length: int, burn_in: int
) -> None:
    streams = TokenStreams(shards, DOCUMENTS, length, burn_in=burn_in, seed=3)
    loader = EpochLoader(streams)
    found: list[tuple[int, int]] = []
    for step in range(loader.steps_in_epoch(1, 200)):
        for batch in loader.step(1, step, 200, 9999):
            assert max(batch.inputs.sequences.lengths) <= length
            assert batch.num_tokens == len(batch.inputs.ids)
            found += zip(
                batch.tokens[batch.positions].tolist(),
                batch.tokens[batch.positions + 1].tolist(),
                strict=True,
            )
    pairs = [(a, b) for each in framed(shards) for a, b in itertools.pairwise(each)]
    assert sorted(found) == sorted(pairs)


def test_a_burn_in_gives_every_prediction_that_much_context(shards: Shards) -> None:
    streams = TokenStreams(shards, DOCUMENTS, 20, burn_in=6)
    batch = streams.batch(0, np.arange(len(streams.lengths(0))))
    sequences = batch.inputs.sequences
    window = sequences.index[batch.positions]
    within = sequences.positions[batch.positions]
    begins = batch.tokens[sequences.first] == shards.special["cls"]
    assert (within[~begins[window]] >= 6).all()
    assert within[begins[window]].min() == 0


def test_the_loss_is_of_what_follows(shards: Shards) -> None:
    batch = TokenStreams(shards, DOCUMENTS, 12).batch(0, np.array([2, 0]))
    x = torch.randn(batch.num_tokens, 5)
    head = NextToken(5, shards.vocab_size)
    loss = head(Encoded(batch.inputs.sequences, x), batch)
    lengths = batch.inputs.sequences.lengths
    total = sum(
        torch.nn.functional.cross_entropy(head.logits(own[:-1]), ids[1:], reduction="sum")
        for own, ids in zip(x.split(lengths), batch.tokens.split(lengths), strict=True)
    )
    torch.testing.assert_close(loss.total, total)
    assert loss.count == head.count(batch) == batch.num_tokens - 2
