"""Our BERT is transformers' BERT: logits, losses and every gradient within 1e-5 in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.models.bert.system import BERT
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.objective import Learner
from bertwright.storage.tensor_names import to_foreign
from tests.parity.conftest import TINY, Labelled, SharedMasks, near


def logits(learner: Learner, batch: Labelled) -> tuple[Tensor, Tensor]:
    """Of every token over the vocabulary, and of every pair."""
    encoded = learner.encoder(batch.inputs)
    masked_lm, next_sentence = learner.objectives["masked_lm"], learner.objectives["next_sentence"]
    assert isinstance(masked_lm, MaskedLM)
    assert isinstance(next_sentence, NextSentence)
    return masked_lm.logits(encoded.last), next_sentence.logits(encoded.pooled)


def check_gradients(theirs: Any, learner: Learner, batch: Labelled) -> None:
    """Losses and all gradients of one step."""
    theirs.zero_grad()
    expected = theirs(**batch.padded)
    expected.loss.backward()
    losses = learner(batch)
    total = sum(loss.total / loss.count for loss in losses.values())
    near(total, expected.loss, "loss")
    learner.zero_grad()
    total.backward()
    gradients = {name: p.grad for name, p in learner.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    ours = to_foreign(gradients, BERT.mappings(learner.encoder.config))
    their_gradients = {name: p.grad for name, p in theirs.named_parameters()}
    assert set(ours) == set(their_gradients)
    for name, gradient in ours.items():
        near(gradient, their_gradients[name], name)
        assert gradient.abs().max() > 0 or name.endswith("key.bias"), name


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["mixed", "full", "one"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_small(
    make_pair: Callable[..., tuple[Any, Learner]],
    batches: dict[str, Labelled],
    activation: str,
    kind: str,
    training: bool,
) -> None:
    theirs, learner = make_pair(hidden_act=activation)
    theirs.train(training)
    learner.train(training)
    batch = batches[kind]
    with torch.no_grad():
        expected = theirs(**batch.padded)
        token_logits, pair_logits = logits(learner, batch)
    near(token_logits, batch.pack(expected.prediction_logits), "masked LM logits")
    near(pair_logits, expected.seq_relationship_logits, "next-sentence logits")
    losses = learner(batch)
    labels = batch.padded["labels"]
    masked = F.cross_entropy(expected.prediction_logits.flatten(0, 1), labels.flatten())
    pairs = F.cross_entropy(expected.seq_relationship_logits, batch.next_sentence_labels)
    near(losses["masked_lm"].total / losses["masked_lm"].count, masked, "masked LM loss")
    near(losses["next_sentence"].total / losses["next_sentence"].count, pairs, "pair loss")
    guesses = expected.prediction_logits.argmax(-1) == labels
    assert losses["masked_lm"].correct == guesses.sum()
    check_gradients(theirs, learner, batch)


def test_the_two_gelus_differ(
    make_pair: Callable[..., tuple[Any, Learner]], batches: dict[str, Labelled]
) -> None:
    _, one = make_pair(hidden_act="gelu")
    _, other = make_pair(hidden_act="gelu_new")
    difference = (logits(one, batches["mixed"])[0] - logits(other, batches["mixed"])[0]).abs()
    assert difference.max() > 1e-4


def test_bert_tiny(make_pair: Callable[..., tuple[Any, Learner]], tiny_batch: Labelled) -> None:
    theirs, learner = make_pair(max_position_embeddings=512, **TINY)
    theirs.train()
    learner.train()
    with torch.no_grad():
        expected = theirs(**tiny_batch.padded)
        token_logits, pair_logits = logits(learner, tiny_batch)
    near(token_logits, tiny_batch.pack(expected.prediction_logits), "masked LM logits")
    near(pair_logits, expected.seq_relationship_logits, "next-sentence logits")
    check_gradients(theirs, learner, tiny_batch)


def test_dropout_stands_where_theirs_stands(
    make_pair: Callable[..., tuple[Any, Learner]],
    batches: dict[str, Labelled],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share = 0.25
    settings = {"hidden_dropout_prob": share, "attention_probs_dropout_prob": share}
    theirs, learner = make_pair(**settings)
    theirs.train()
    learner.train()
    batch = batches["mixed"]
    masks = SharedMasks(batch, heads=4, hidden=24, layers=3, share=share)
    expected_loss = theirs.eval()(**batch.padded).loss
    theirs.train()
    monkeypatch.setattr(nn.functional, "dropout", masks.for_theirs())
    expected = theirs(**batch.padded)
    expected.loss.backward()
    assert (expected.loss - expected_loss).abs() > 1e-3
    probabilities, forward = masks.for_ours(batch.masked_positions)
    monkeypatch.setattr("bertwright.nn.transformer.blocks.drop", probabilities)
    monkeypatch.setattr(Dropout, "forward", forward)
    losses = learner(batch)
    total = sum(loss.total / loss.count for loss in losses.values())
    total.backward()
    near(total, expected.loss, "loss")
    gradients = {name: p.grad for name, p in learner.named_parameters()}
    ours = to_foreign(gradients, BERT.mappings(learner.encoder.config))
    for name, parameter in theirs.named_parameters():
        near(ours[name], parameter.grad, name)
