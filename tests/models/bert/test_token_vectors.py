"""Token vectors from counts: alike where contexts are alike."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.models.bert import token_vectors
from bertwright.models.bert.token_vectors import DISTANCE, count_neighbours, make_token_vectors


def test_counts_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_vectors, "PART", 13)
    tokens = np.random.default_rng(0).integers(0, 7, 60)
    expected = np.zeros((7, 7))
    for place, token in enumerate(tokens):
        for distance in range(1, DISTANCE + 1):
            for other in (place - distance, place + distance):
                if 0 <= other < len(tokens):
                    expected[token, tokens[other]] += 1
    np.testing.assert_allclose(count_neighbours(tokens, 7).toarray(), expected, rtol=1e-5)


def test_tokens_with_the_same_neighbours_have_near_vectors() -> None:
    chance = np.random.default_rng(0)
    # 1 and 2 stand for each other in "x . y"; so do 3 and 4 in "u . v".
    frames = [(5, (1, 2), 6), (7, (3, 4), 8)]
    sentences = []
    for _ in range(4000):
        before, middle, after = frames[chance.integers(2)]
        sentences.append([before, int(chance.choice(middle)), after, int(chance.integers(9, 30))])
    vectors = make_token_vectors(np.concatenate(sentences), 32, 12, seed=1)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    likeness = unit @ unit.T
    assert likeness[1, 2] > 0.8
    assert likeness[3, 4] > 0.8
    assert likeness[1, 3] < 0.5


@pytest.mark.parametrize(("seen", "size", "width"), [(30, 40, 16), (10, 10, 16)])
def test_size_is_one_and_the_rest_zero(seen: int, size: int, width: int) -> None:
    """Of unseen tokens, and of what a width over the vocabulary leaves."""
    tokens = np.random.default_rng(0).integers(0, seen, 5000)
    vectors = make_token_vectors(tokens, size, width, seed=1)
    assert vectors.shape == (size, width)
    assert vectors.dtype == np.float32
    own = min(width, size - 1)
    assert (vectors[:seen, :own] ** 2).mean(1) == pytest.approx(np.ones(seen), rel=1e-4)
    assert not vectors[seen:].any()
    assert not vectors[:, own:].any()
    np.testing.assert_array_equal(vectors, make_token_vectors(tokens, size, width, seed=1))
