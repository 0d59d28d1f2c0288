"""Classes, labels and numbers, against PyTorch's losses on scores merged by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn.features import pool
from tests.tasks.sample_of_heads import ALL, make_batch, make_head, random_encoded


def merged(scores: Tensor, owners: Tensor, how: str) -> Tensor:
    """One row an example."""
    parts = [scores[owners == example] for example in ALL]
    return torch.stack([p.mean(0) if how == "mean" else p.amax(0) for p in parts])


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("kind", ["classes", "labels", "number"])
def test_windows_are_merged_before_the_loss(kind: str, how: str) -> None:
    head = make_head(kind, merge=how)
    batch = make_batch(kind, ALL)
    encoded = random_encoded(batch)
    by_window = F.linear(encoded.pooled, head.classifier.weight, head.classifier.bias)
    scores = merged(by_window, batch.owners, how)
    scores = scores[:, 0] if kind == "number" else scores
    torch.testing.assert_close(head.scores(encoded, batch), scores)
    loss = head(encoded, batch)
    assert loss.count == 4
    mean, right = {
        "classes": lambda: (
            F.cross_entropy(scores, batch.labels),
            (scores.argmax(1) == batch.labels).sum(),
        ),
        "labels": lambda: (
            F.binary_cross_entropy_with_logits(scores, batch.labels),
            sum(torch.equal(s > 0, y > 0.5) for s, y in zip(scores, batch.labels, strict=True)),
        ),
        "number": lambda: (F.mse_loss(scores, batch.labels), None),  # neither right nor wrong
    }[kind]()
    torch.testing.assert_close(loss.total / 4, mean)
    assert loss.correct == right


def test_right_ones_are_counted() -> None:
    head = make_head("classes")
    head.classifier.weight.data.zero_()
    head.classifier.bias.data = torch.tensor([0.0, 0.0, 1.0, 0.0])
    batch = make_batch("classes", ALL)
    assert head(random_encoded(batch), batch).correct == 1  # one of 3, 0, 2, 1
    head = make_head("labels")
    head.classifier.weight.data.zero_()
    head.classifier.bias.data = torch.tensor([-1.0, -1.0, -1.0, 1.0])
    batch = make_batch("labels", ALL)
    assert head(random_encoded(batch), batch).correct == 1  # the last


def test_class_weights() -> None:
    batch = make_batch("classes", ALL)
    encoded = random_encoded(batch)
    weights = torch.tensor([0.2, 1.8, 0.5, 1.5])  # mean 1 over these labels, one of each
    loss = make_head("classes", weights)(encoded, batch)
    scores = make_head("classes").scores(encoded, batch)
    each = F.cross_entropy(scores, batch.labels, reduction="none")
    torch.testing.assert_close(loss.total, (weights[batch.labels] * each).sum())
    # PyTorch's mean over weights is ours over examples when the weights have mean 1
    torch.testing.assert_close(loss.total / 4, F.cross_entropy(scores, batch.labels, weights))
    some = make_batch("classes", [0, 1])  # labels 3 and 0, whose weights have another mean
    part = make_head("classes", weights)(random_encoded(some), some).total
    scores = make_head("classes").scores(random_encoded(some), some)
    each = F.cross_entropy(scores, some.labels, reduction="none")
    torch.testing.assert_close(part, 1.5 * each[0] + 0.2 * each[1])


def test_label_weights() -> None:
    batch = make_batch("labels", ALL)
    encoded = random_encoded(batch)
    weights = torch.tensor([0.2, 1.8, 0.5, 1.5])
    loss = make_head("labels", weights)(encoded, batch)
    scores = make_head("labels").scores(encoded, batch)
    each = F.binary_cross_entropy_with_logits(scores, batch.labels, reduction="none")
    torch.testing.assert_close(loss.total, (each * weights).mean(1).sum())


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_other_layers_are_pooled(pooling: str) -> None:
    head = make_head("classes", layers="sum-last-4", pooling=pooling)
    batch = make_batch("classes", ALL)
    encoded = random_encoded(batch)
    vectors = pool(sum(encoded.layers[2:]), batch.inputs.sequences, pooling)
    expected = merged(head.classifier(vectors), batch.owners, "mean")
    torch.testing.assert_close(head.scores(encoded, batch), expected)


def test_ulmfits_head_reads_three_poolings_through_a_hidden_layer() -> None:
    head = make_head("classes", layers="last", pooling="last+max+mean", hidden_size=6)
    batch = make_batch("classes", ALL)
    encoded = random_encoded(batch)
    windows = encoded.layers[-1].split(batch.inputs.sequences.lengths)
    vectors = torch.stack([torch.cat([w[-1], w.amax(0), w.mean(0)]) for w in windows])
    hidden = F.relu(F.linear(vectors, head.hidden.weight, head.hidden.bias))
    expected = merged(head.classifier(hidden), batch.owners, "mean")
    torch.testing.assert_close(head.scores(encoded, batch), expected)


@pytest.mark.parametrize("layers", [None, "second-to-last"])
def test_lstm_takes_the_largest_of_its_states(layers: str | None) -> None:
    head = make_head("classes", layers=layers, network="bilstm", pooling="cls")
    batch = make_batch("classes", ALL)
    encoded = random_encoded(batch)
    x = encoded.last if layers is None else encoded.layers[4]
    windows = x.split(batch.inputs.sequences.lengths)
    states = [head.network.lstm(window[:, None])[0][:, 0].amax(0) for window in windows]
    expected = merged(head.classifier(torch.stack(states)), batch.owners, "mean")
    torch.testing.assert_close(head.scores(encoded, batch), expected)
