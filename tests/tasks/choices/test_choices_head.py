"""One of several choices, of which examples have different numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.tasks.sample_of_heads import ALL, by_example, make_batch, make_head, random_encoded


@pytest.mark.parametrize("how", ["mean", "max"])
def test_cross_entropy_over_the_choices_of_an_example(how: str) -> None:
    head, batch = make_head("choice", merge=how), make_batch("choice", ALL)
    assert batch.counts == (2, 1, 1, 2)
    encoded = random_encoded(batch)
    by_window = F.linear(encoded.pooled, head.classifier.weight, head.classifier.bias)[:, 0]
    parts = [by_window[batch.owners == choice] for choice in range(6)]
    expected = torch.stack([p.mean() if how == "mean" else p.max() for p in parts])
    scores = head.scores(encoded, batch)
    torch.testing.assert_close(scores, expected)
    total, right = torch.zeros(()), 0
    for choices, gold in zip(by_example("choice", scores, batch), batch.labels, strict=True):
        total = total + F.cross_entropy(choices[None], gold[None])
        right += int(choices.argmax() == gold)
    loss = head(encoded, batch)
    assert loss.count == 4
    torch.testing.assert_close(loss.total, total)
    assert loss.correct == right


@pytest.mark.parametrize(("gold", "right"), [(0, 0), (1, 0), (2, 1)])
def test_right_is_better_than_all_others(
    monkeypatch: pytest.MonkeyPatch, gold: int, right: int
) -> None:
    head, scores = make_head("choice"), torch.tensor([-9.0, 0.5, 1.0])
    monkeypatch.setattr(head, "scores", lambda encoded, batch: scores)
    batch = replace(make_batch("choice", [0]), counts=(3,), labels=torch.tensor([gold]))
    loss = head(random_encoded(batch), batch)
    assert loss.correct == right
    torch.testing.assert_close(loss.total, F.cross_entropy(scores, torch.tensor(gold)))


def test_a_single_choice_teaches_nothing() -> None:
    head, batch = make_head("choice"), make_batch("choice", [1, 2])
    loss = head(random_encoded(batch), batch)
    assert loss.total == 0
    assert loss.correct == 2
    loss.total.backward()
    assert head.classifier.weight.grad.abs().max() == 0
