"""Rectangles with a mask give what sequences end to end give, for every head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.checkpoint.export.check import ours
from bertwright.checkpoint.export.exported import pad
from bertwright.checkpoint.export.padded import PaddedEncoder
from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.nn.objective import Learner
from tests.checkpoint.conftest import CONFIG
from tests.checkpoint.export.sample import ABC, TASKS, learner_of, run, stand_in, task

HEADS = ["encoder", "masked_lm", "next_sentence", *TASKS]


SIZES: Any = {
    "vocab_size": CONFIG.vocab_size,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
MEMBERS = {
    "mpnet": MpnetConfig(**SIZES),
    "modernbert": ModernBertConfig(**SIZES, local_attention=6, classifier_pooling="mean"),
}
"""Attention by distance; positions that rotate queries and keys, windows, a pooler of the mean."""


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_ours(name: str) -> None:
    agrees(*learner_of(name))


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("name", [name for name in HEADS if name != "next_sentence"])
def test_every_head_of_a_newer_member_is_ours(name: str, member: str) -> None:
    agrees(*learner_of(name, MEMBERS[member], ("masked_lm",)))


def agrees(learner: Learner, head: str | None, config: TaskConfig | None) -> None:
    exported = stand_in(PaddedEncoder(learner, head, config).eval(), head)
    chance = np.random.default_rng(1)
    lengths = [1, 17, 5, 9, 2, 9]
    ids = [chance.integers(0, CONFIG.vocab_size, n).tolist() for n in lengths]
    types = [[0] * (n // 2) + [1] * (n - n // 2) for n in lengths]
    theirs, own = exported.run_all(ids, types), ours(learner, exported, ids, types)
    for output, arrays in own.items():
        assert max(float(np.abs(array).max()) for array in arrays) > 1e-3
        for a, b in zip(arrays, theirs[output], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=2e-5)


def test_a_head_that_compares_two_texts_is_refused() -> None:
    config = task("classification", ABC, layers="last", compares=True)
    learner = make_learner(CONFIG, (), {"pairs": config})
    with pytest.raises(ConfigError, match=r"pairs compares.*--transfer features"):
        PaddedEncoder(learner, "pairs", config)


def test_a_head_of_another_pre_training_is_refused() -> None:
    learner, _, _ = learner_of("encoder")
    learner.objectives["replaced_tokens"] = torch.nn.Linear(2, 1)
    with pytest.raises(ConfigError, match=r"replaced_tokens cannot be exported.*--task"):
        PaddedEncoder(learner, "replaced_tokens")


def test_layers_are_told_apart() -> None:
    learner, _, _ = learner_of("encoder")
    padded = PaddedEncoder(learner, layers=(1, 3)).eval()
    assert padded.outputs == {"hidden_states.1": True, "last_hidden_state": True}
    low = PaddedEncoder(learner, layers=(0, 1)).eval()
    assert low.top == 1  # the graph stops there
    exported = stand_in(padded)
    own = ours(learner, exported, [[3, 4, 5]], [[0, 0, 1]])
    theirs = exported.run_all([[3, 4, 5]], [[0, 0, 1]])
    for output, arrays in own.items():
        np.testing.assert_allclose(arrays[0], theirs[output][0], atol=2e-5)


def test_choices_of_an_example_lie_side_by_side() -> None:
    learner, head, config = learner_of("choice")
    padded = PaddedEncoder(learner, head, config).eval()
    feed = pad([[3, 4], [5, 6, 7], [8], [9, 10, 11], [3], [4, 5]])
    exported = stand_in(padded, head)
    flat = exported.run_all([[3, 4], [5, 6, 7], [8], [9, 10, 11], [3], [4, 5]])["logits"]
    (scores,) = run(padded, {name: each.reshape(2, 3, 3) for name, each in feed.items()})
    np.testing.assert_allclose(scores.reshape(-1).numpy(), np.array(flat), atol=2e-6)


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(0, 5),
    st.integers(0, 36),
)
def test_padding_changes_nothing(lengths: list[int], more: int, junk: int) -> None:
    """However much padding there is and whatever stands in it: not one bit of a real token."""
    learner, _, _ = learner_of("encoder")
    padded = PaddedEncoder(learner).eval()
    chance = np.random.default_rng(sum(lengths))
    feed = pad([chance.integers(0, CONFIG.vocab_size, n).tolist() for n in lengths])
    widened = {n: np.pad(array, ((0, 0), (0, more))) for n, array in feed.items()}
    widened["input_ids"][widened["attention_mask"] == 0] = junk
    before, after = run(padded, feed)[0], run(padded, widened)[0]
    for row, length in enumerate(lengths):
        torch.testing.assert_close(before[row, :length], after[row, :length], atol=5e-6, rtol=0)


@pytest.mark.parametrize("kind", ["tagging", "classification", "span"])
def test_heads_with_an_lstm_are_refused(kind: str) -> None:
    config = task(kind, () if kind == "span" else ABC, network="bilstm", network_size=5)
    learner = make_learner(CONFIG, (), {"a": config}).eval()
    with pytest.raises(ConfigError, match="LSTM"):
        PaddedEncoder(learner, "a", config)
