"""Start and end of an answer: a softmax over the tokens of each window, and over no others."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from tests.tasks.sample_of_heads import ALL, by_example, make_batch, make_head, random_encoded


def test_cross_entropy_of_each_window() -> None:
    head, batch = make_head("span"), make_batch("span", ALL)
    encoded = random_encoded(batch)
    scores = head.scores(encoded, batch)
    expected = F.linear(encoded.last, head.qa_outputs.weight, head.qa_outputs.bias)
    torch.testing.assert_close(scores, expected)
    total, right = torch.zeros(()), 0
    for window, gold in zip(by_example("span", scores, batch), batch.labels, strict=True):
        start, end = F.cross_entropy(window.T, gold, reduction="none")
        total = total + (start + end) / 2
        right += torch.equal(window.argmax(0), gold)
    loss = head(encoded, batch)
    assert loss.count == batch.inputs.sequences.count == 7
    torch.testing.assert_close(loss.total, total)
    assert loss.correct == right


def test_both_ends_must_be_right() -> None:
    head, batch = make_head("span"), make_batch("span", [0])
    head.qa_outputs.weight.data.zero_()
    head.qa_outputs.weight.data[:, :2] = torch.eye(2)  # a token's vector tells its scores
    encoded = random_encoded(batch)
    told = torch.zeros_like(encoded.last)
    starts = batch.inputs.sequences.first
    for window, (start, end) in enumerate(batch.labels.tolist()):
        told[starts[window] + start, 0] = 5
        told[starts[window] + end, 1] = 5
    assert head(replace(encoded, last=told), batch).correct == 2
    told[starts[0] + 1, 1] = 6
    assert head(replace(encoded, last=told), batch).correct == 1
