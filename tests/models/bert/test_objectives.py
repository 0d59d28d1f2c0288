"""Objectives: a loss is a sum and a count, so that any split of a batch gives the same gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner, Objective
from tests.models.bert.conftest import LENGTHS, make_batch
from tests.small_bert import STILL


@pytest.fixture
def learner() -> Learner:
    made = make_learner(STILL, ["masked_lm", "next_sentence"])
    initialize(made, 0.2, torch.Generator().manual_seed(0))
    return made


def gradients(learner: Learner, splits: list[list[int]]) -> dict[str, Tensor]:
    """Of one step over all splits: sums added up, divided once."""
    learner.zero_grad()
    batches = [make_batch(rows) for rows in splits]
    counts = {
        name: sum(objective.count(batch) for batch in batches)
        for name, objective in learner.objectives.items()
    }
    for batch in batches:
        losses = learner(batch)
        assert {n: loss.count for n, loss in losses.items()} == {
            n: objective.count(batch) for n, objective in learner.objectives.items()
        }
        sum(loss.total / counts[name] for name, loss in losses.items()).backward()
    return {name: p.grad.clone() for name, p in learner.named_parameters()}


@pytest.mark.parametrize(
    "splits", [[[0], [1], [2], [3]], [[0, 1, 2], [3]], [[2], [3, 1, 0]], [[3, 2, 1, 0]]]
)
def test_any_split_gives_the_same_gradient(learner: Learner, splits: list[list[int]]) -> None:
    whole = gradients(learner, [[0, 1, 2, 3]])
    for name, gradient in gradients(learner, splits).items():
        torch.testing.assert_close(gradient, whole[name], rtol=0, atol=2e-6, msg=name)


def test_masked_lm_is_cross_entropy(learner: Learner) -> None:
    batch = make_batch([0, 1, 2, 3])
    encoded = learner.encoder(batch.inputs)
    objective = learner.objectives["masked_lm"]
    assert isinstance(objective, MaskedLM)
    logits = objective.logits(encoded.last[batch.masked_positions])
    loss = objective(encoded, batch)
    assert loss.count == 7
    expected = F.cross_entropy(logits, batch.masked_labels, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    assert loss.correct == (logits.argmax(1) == batch.masked_labels).sum()
    label = batch.masked_labels[0]
    objective.bias.data[label] = 99.0
    assert objective(encoded, batch).correct == (batch.masked_labels == label).sum()


def test_next_sentence_is_cross_entropy(learner: Learner) -> None:
    batch = make_batch([0, 1, 2, 3])
    encoded = learner.encoder(batch.inputs)
    objective = learner.objectives["next_sentence"]
    assert isinstance(objective, NextSentence)
    logits = objective.logits(encoded.pooled)
    loss = objective(encoded, batch)
    assert loss.count == 4
    expected = F.cross_entropy(logits, batch.next_sentence_labels, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    objective.classifier.bias.data = torch.tensor([99.0, 0.0])
    for rows, right in (([0, 1, 2], 2), ([1, 3], 0)):  # odd ones are of class 1
        assert learner(make_batch(rows))["next_sentence"].correct == right


def test_losses_of_bfloat16_are_float32(learner: Learner) -> None:
    batch = make_batch([0, 1, 2, 3])
    learner.bfloat16()
    encoded = learner.encoder(batch.inputs)
    logits = learner.objectives["next_sentence"].logits(encoded.pooled)
    losses = learner(batch)
    assert losses["masked_lm"].total.dtype == torch.float32
    expected = F.cross_entropy(logits.float(), batch.next_sentence_labels, reduction="sum")
    torch.testing.assert_close(losses["next_sentence"].total, expected)


def test_the_decoder_is_the_embeddings(learner: Learner) -> None:
    names = [name for name, _ in learner.named_parameters()]
    assert not any("decoder" in name for name in names)
    state = learner.state_dict()
    assert set(state) == set(names)
    before = learner.objectives["masked_lm"].logits(torch.ones(1, 24))
    learner.encoder.embeddings.token.weight.data *= 2
    after = learner.objectives["masked_lm"].logits(torch.ones(1, 24))
    torch.testing.assert_close(after, before * 2)  # the bias is zero


def test_nothing_masked_is_no_loss(learner: Learner) -> None:
    loss = learner(make_batch([2]))["masked_lm"]
    assert loss.count == 0
    assert loss.total == 0


def test_the_last_layer_is_computed_where_it_is_read(learner: Learner) -> None:
    """Masked positions and [CLS] alone; everywhere if two objectives read tokens."""
    batch = make_batch([0, 1, 2, 3])
    seen: list[int] = []
    last = learner.encoder.layers[-1].feed_forward
    last.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    losses = learner(batch)
    assert seen == [len(LENGTHS) + 7] == [learner.tokens_read(batch)]
    twice = Learner(
        learner.encoder, {**learner.objectives, "again": learner.objectives["masked_lm"]}
    )
    again = twice(batch)
    assert seen[1:] == [sum(LENGTHS)] == [twice.tokens_read(batch)]
    torch.testing.assert_close(again["masked_lm"].total, losses["masked_lm"].total)
    torch.testing.assert_close(again["next_sentence"].total, losses["next_sentence"].total)


def test_an_objective_must_be_written() -> None:
    with pytest.raises(NotImplementedError, match=r"Objective.*forward"):
        Objective()(None, None)
