"""Left-to-right BERT is BERT, but for what a token sees."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch

from bertwright.errors import ConfigError
from bertwright.inference.backends.packed import packable
from bertwright.models.bert.config import LeftToRightBertConfig
from bertwright.models.bert.encoder import Bert
from bertwright.models.load import system_that
from bertwright.nn.sequences import Inputs, Sequences
from tests import small_bert

LENGTHS = [9, 5, 5, 1]
SIZES = {**asdict(small_bert.STILL), "num_hidden_layers": 3, "pooler": False}
CONFIG = LeftToRightBertConfig(**SIZES)


def inputs(lengths: list[int], prefixes: list[int] | None = None) -> Inputs:
    ids = torch.randint(53, (sum(lengths),), generator=torch.Generator().manual_seed(3))
    return Inputs(ids, Sequences(lengths, prefixes=prefixes))


@pytest.fixture
def encoder() -> Bert:
    made = Bert(CONFIG)
    small_bert.scatter(made, 0.2, 0.1)
    return made.eval()


def test_it_is_bert_whose_sources_have_one_token(encoder: Bert) -> None:
    both_ways = Bert(small_bert.STILL.__class__(**asdict(CONFIG))).eval()
    both_ways.load_state_dict(encoder.state_dict())
    with torch.inference_mode():
        ours = encoder(inputs(LENGTHS)).last
        as_targets = both_ways(inputs(LENGTHS, prefixes=[1] * len(LENGTHS))).last
        other = both_ways(inputs(LENGTHS)).last
    torch.testing.assert_close(ours, as_targets)
    assert (ours - other).abs().max() > 0.1


def test_no_position_sees_a_later_one(encoder: Bert) -> None:
    given = inputs(LENGTHS)
    with torch.inference_mode():
        before = encoder(given, keep_layers=True).layers
        for changed in range(9):
            ids = given.ids.clone()
            ids[changed] = (ids[changed] + 1) % 53
            after = encoder(Inputs(ids, given.sequences), keep_layers=True).layers
            for first, second in zip(before, after, strict=True):
                torch.testing.assert_close(first[:changed], second[:changed], rtol=0, atol=0)
                torch.testing.assert_close(first[9:], second[9:])
            assert (before[-1][changed:9] - after[-1][changed:9]).abs().amax(1).min() > 1e-4


def test_a_token_more_over_what_is_kept_is_all_at_once(encoder: Bert) -> None:
    given = inputs([7, 4])
    sequences = Sequences([5, 2])
    rows = torch.tensor([0, 1, 2, 3, 4, 7, 8])
    with torch.inference_mode():
        expected = encoder(given).last
        x, state = encoder.begin(Inputs(given.ids[rows], sequences))
        torch.testing.assert_close(x, expected[[4, 8]])
        for step in (1, 2):
            x, state = encoder.advance(given.ids[[4 + step, 8 + step]], state)
            torch.testing.assert_close(x, expected[[4 + step, 8 + step]])


def test_it_has_no_pooler_and_is_read_at_its_last_token(encoder: Bert) -> None:
    spec = encoder.spec
    assert (spec.causal, spec.prefixed, spec.pooled, spec.reads_last) == (True, False, False, True)
    assert encoder.pooler is None
    with pytest.raises(ConfigError, match="pooler is true"):
        LeftToRightBertConfig(**{**SIZES, "pooler": True})
    assert packable(encoder) is None  # its weights would be laid out for attention both ways
    with pytest.raises(ConfigError, match="is a bert-ltr"):
        system_that(lambda system: system.is_padded, CONFIG, "a folder of sentence-transformers")
