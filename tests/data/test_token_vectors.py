"""Token vectors from counts: alike where contexts are alike."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.data.token_vectors import WEIGHTS, _count_neighbours, make_token_vectors


def test_counts_are_those_of_a_plain_loop() -> None:
    tokens = np.random.default_rng(0).integers(0, 7, 60)
    expected = np.zeros((7, 7))
    for place, token in enumerate(tokens):
        for distance, weight in enumerate(WEIGHTS, 1):
            for other in (place - distance, place + distance):
                if 0 <= other < len(tokens):
                    expected[token, tokens[other]] += weight
    np.testing.assert_allclose(_count_neighbours(tokens, 7).toarray(), expected, rtol=1e-5)


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


def test_size_is_one_and_unseen_tokens_are_zero() -> None:
    tokens = np.random.default_rng(0).integers(0, 30, 5000)
    vectors = make_token_vectors(tokens, 40, 16, seed=1)
    assert vectors.shape == (40, 16)
    assert vectors.dtype == np.float32
    assert (vectors[:30] ** 2).mean(1) == pytest.approx(np.ones(30), rel=1e-4)
    assert not vectors[30:].any()


def test_a_width_over_the_vocabulary_is_filled_with_zeros() -> None:
    tokens = np.random.default_rng(0).integers(0, 10, 500)
    vectors = make_token_vectors(tokens, 10, 16, seed=1)
    assert vectors.shape == (10, 16)
    assert not vectors[:, 9:].any()


def test_the_same_seed_gives_the_same_vectors() -> None:
    tokens = np.random.default_rng(0).integers(0, 50, 3000)
    one, other = (make_token_vectors(tokens, 50, 8, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one, other)
