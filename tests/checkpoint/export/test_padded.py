"""Rectangles with a mask give what sequences end to end give, for every head."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.checkpoint.export.check import ours
from bertwright.checkpoint.export.exported import Exported, pad
from bertwright.checkpoint.export.padded import INPUTS, Padded
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.errors import ConfigError
from bertwright.nn.init import initialize
from bertwright.objectives.objective import Learner
from tests.checkpoint.conftest import CONFIG


def task(kind: str, labels: tuple[str, ...] = (), **more: object) -> TaskConfig:
    head = HeadConfig(**more)  # type: ignore[arg-type]
    return TaskConfig(kind, labels=labels, max_length=16, stride=4, head=head)  # type: ignore[arg-type]


ABC = ("a", "b", "c")
TASKS = {
    "classes": task("classification", ABC),
    "mix-max": task("classification", ABC, layers="mix", pooling="max"),
    "last-mean": task("classification", ABC, layers="last"),
    "below-cls": task("classification", ABC, layers="second-to-last", pooling="cls"),
    "lstm": task("classification", ABC, network="bilstm", network_size=5),
    "ulmfit": task("classification", ABC, layers="last", pooling="last+max+mean", hidden_size=7),
    "hidden": task("classification", ABC, hidden_size=7),
    "number": task("regression"),
    "tags": task("tagging", ABC),
    "crf": task("tagging", ABC, crf=True, layers="embeddings"),
    "span": task("span"),
    "span-lstm": task("span", network="bilstm", network_size=5, layers="mix"),
    "choice": task("multiple-choice"),
}
HEADS = ["encoder", "masked_lm", "next_sentence", *TASKS]


def learner_of(name: str) -> tuple[Learner, str | None, TaskConfig | None]:
    """Every number random, those of mixes and CRFs too."""
    pretrained = ("masked_lm", "next_sentence")
    learner = make_learner(CONFIG, pretrained, {name: TASKS[name]} if name in TASKS else {})
    chance = torch.Generator().manual_seed(0)
    initialize(learner, 0.2, chance)
    for parameter in learner.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=chance) * 0.1)
    return learner.eval(), None if name == "encoder" else name, TASKS.get(name)


def stand_in(padded: Padded, head: str | None, config: TaskConfig | None) -> Exported:
    """An export whose runtime is torch itself."""

    def session(feed):  # type: ignore[no-untyped-def]
        with torch.no_grad():
            return [x.numpy() for x in padded(*(torch.from_numpy(feed[name]) for name in INPUTS))]

    outputs = {n: n in padded.of_tokens for n in padded.outputs}
    kind = config.kind if config else None
    layers = padded.encoder.layers
    return Exported(None, "onnx", False, head, kind, outputs, layers, 17, session)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_ours(name: str) -> None:
    learner, head, config = learner_of(name)
    exported = stand_in(Padded(learner, head, config).eval(), head, config)
    chance = np.random.default_rng(1)
    lengths = [1, 17, 5, 9, 2, 9]
    ids = [chance.integers(0, CONFIG.vocab_size, n).tolist() for n in lengths]
    types = [[0] * (n // 2) + [1] * (n - n // 2) for n in lengths]
    theirs, own = exported.run_all(ids, types), ours(learner, exported, config, ids, types)
    for output, arrays in own.items():
        assert max(float(np.abs(array).max()) for array in arrays) > 1e-3
        for a, b in zip(arrays, theirs[output], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=2e-5)


def test_layers_are_told_apart() -> None:
    learner, _, _ = learner_of("encoder")
    padded = Padded(learner, layers=(1, 3)).eval()
    assert padded.outputs == ["hidden_states.1", "last_hidden_state"]
    low = Padded(learner, layers=(0, 1)).eval()
    assert low.encoder.top == 1  # the graph stops there
    exported = stand_in(padded, None, None)
    own = ours(learner, exported, None, [[3, 4, 5]], [[0, 0, 1]])
    theirs = exported.run_all([[3, 4, 5]], [[0, 0, 1]])
    for output, arrays in own.items():
        np.testing.assert_allclose(arrays[0], theirs[output][0], atol=2e-5)


def test_choices_of_an_example_lie_side_by_side() -> None:
    learner, head, config = learner_of("choice")
    padded = Padded(learner, head, config).eval()
    feed = pad([[3, 4], [5, 6, 7], [8], [9, 10, 11], [3], [4, 5]])
    exported = stand_in(padded, head, config)
    flat = exported.run_all([[3, 4], [5, 6, 7], [8], [9, 10, 11], [3], [4, 5]])["logits"]
    with torch.no_grad():
        (scores,) = padded(*(torch.from_numpy(feed[n]).reshape(2, 3, 3) for n in INPUTS))
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
    padded = Padded(learner).eval()
    chance = np.random.default_rng(sum(lengths))
    feed = pad([chance.integers(0, CONFIG.vocab_size, n).tolist() for n in lengths])
    widened = {n: np.pad(array, ((0, 0), (0, more))) for n, array in feed.items()}
    widened["input_ids"][widened["attention_mask"] == 0] = junk
    with torch.no_grad():
        before = padded(*(torch.from_numpy(feed[n]) for n in INPUTS))[0]
        after = padded(*(torch.from_numpy(widened[n]) for n in INPUTS))[0]
    for row, length in enumerate(lengths):
        torch.testing.assert_close(before[row, :length], after[row, :length], atol=5e-6, rtol=0)


def test_a_tagger_that_reads_words_is_refused() -> None:
    config = task("tagging", ABC, network="bilstm", network_size=5)
    learner = make_learner(CONFIG, (), {"words": config}).eval()
    with pytest.raises(ConfigError, match="LSTM over words"):
        Padded(learner, "words", config)
