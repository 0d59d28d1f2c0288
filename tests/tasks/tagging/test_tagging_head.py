"""A tag for each word: from its first piece, alone or on the best path."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from bertwright.tasks.tagging.kind import Tagger
from tests.tasks.sample_of_heads import ALL, make_batch, make_head, random_encoded


def make(**head: object) -> Tagger:
    made = make_head("tags", **head)
    assert isinstance(made, Tagger)
    return made


def test_first_pieces_are_judged_alone() -> None:
    head, batch = make(), make_batch("tags", ALL)
    encoded = random_encoded(batch)
    scores = head.scores(encoded, batch)
    expected = F.linear(encoded.last[batch.words], head.classifier.weight, head.classifier.bias)
    torch.testing.assert_close(scores, expected)
    others = torch.ones(batch.inputs.sequences.total, 1)
    others[batch.words] = 0
    changed = replace(encoded, last=encoded.last + others)
    torch.testing.assert_close(head.scores(changed, batch), scores)
    loss = head(encoded, batch)
    assert loss.count == 10
    torch.testing.assert_close(loss.total / 10, F.cross_entropy(scores, batch.labels))
    assert loss.correct == (scores.argmax(1) == batch.labels).sum()
    assert torch.equal(head.decode(scores, batch), scores.argmax(1))
    torch.testing.assert_close(head.probabilities(scores, batch), scores.softmax(1))


def test_class_weights() -> None:
    batch = make_batch("tags", ALL)
    encoded = random_encoded(batch)
    weights = torch.tensor([0.2, 1.8, 0.5, 1.5])
    head = make()
    each = F.cross_entropy(head.scores(encoded, batch), batch.labels, reduction="none")
    loss = make(weights=weights)(encoded, batch)
    torch.testing.assert_close(loss.total, (weights[batch.labels] * each).sum())
    assert loss.count == 10


def test_crf_judges_examples_as_wholes() -> None:
    head, batch = make(crf=True), make_batch("tags", ALL)
    encoded = random_encoded(batch)
    scores = head.scores(encoded, batch)
    loss = head(encoded, batch)
    total, right, first = torch.zeros(()), 0, 0
    for count in batch.counts:
        rows = slice(first, first + count)
        first += count
        total = total - head.crf.log_likelihood(scores[rows], batch.labels[rows], [count])[0]
        best = head.crf.decode(scores[rows], [count])
        right += int((best == batch.labels[rows]).sum())
        assert torch.equal(head.decode(scores, batch)[rows], best)
        share = head.probabilities(scores, batch)[rows]
        torch.testing.assert_close(share, head.crf.probabilities(scores[rows], [count]))
    torch.testing.assert_close(loss.total, total)
    assert loss.count == 10  # words, though whole sentences are judged
    assert loss.correct == right
    torch.testing.assert_close(head.probabilities(scores, batch).sum(1), torch.ones(10))
    assert not torch.equal(head.decode(scores, batch), scores.argmax(1))


def test_lstm_reads_the_words_of_an_example() -> None:
    head, batch = make(network="bilstm"), make_batch("tags", ALL)
    encoded = random_encoded(batch)
    words = encoded.last[batch.words].split(list(batch.counts))
    states = torch.cat([head.network.lstm(part[:, None])[0][:, 0] for part in words])
    torch.testing.assert_close(head.scores(encoded, batch), head.classifier(states))


@pytest.mark.parametrize("crf", [False, True])
def test_probabilities_in_inference_mode(crf: bool) -> None:
    head, batch = make(crf=crf), make_batch("tags", ALL)
    with torch.inference_mode():
        scores = head.scores(random_encoded(batch), batch)
        share = head.probabilities(scores, batch)
    torch.testing.assert_close(share.sum(1), torch.ones(10))
    assert (share > 0).all()
