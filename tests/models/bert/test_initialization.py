"""BERT's initialization: heads that attend to neighbours, and known token vectors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bertwright.models.bert.initialization import aim_heads, place_vectors, shift_of


@pytest.mark.parametrize("hidden", [64, 60])
def test_heads_are_aimed_at_the_neighbours(hidden: int) -> None:
    """In head 0 a position asks for the one before it, in head 1 for the one after it, ..."""
    heads, positions, qkv = 4, torch.empty(30, hidden), torch.zeros(3 * hidden, hidden)
    shifts = [shift_of(head) for head in range(heads)]
    assert shifts == [-1, 1, -2, 2]
    aim_heads(positions, qkv, shifts, 0.02)
    queries, keys, values = qkv.view(3, heads, hidden // heads, hidden)
    for head, shift in enumerate(shifts):
        scores = (positions @ queries[head].T) @ (positions @ keys[head].T).T
        assert torch.equal(scores.argmax(1)[2:-2], torch.arange(2, 28) + shift)
    assert not values.any()
    assert positions.square().mean().sqrt() == pytest.approx(0.02)


def test_known_vectors_are_turned_scaled_and_noised() -> None:
    known = torch.zeros(300, 64)
    known[:, 0] = 8.0  # unit mean square; all equal
    tokens = torch.empty(300, 64)
    place_vectors(tokens, known, 0.02, torch.Generator().manual_seed(0))
    assert tokens.square().mean().sqrt() == pytest.approx(0.02, rel=0.01)
    assert tokens.square().mean(0).max() < 16 * 0.02**2  # no dimension stands out
    one, other = tokens.split(150)
    likeness = nn.functional.cosine_similarity(one, other).mean()
    assert likeness == pytest.approx(0.9**2, abs=0.02)
