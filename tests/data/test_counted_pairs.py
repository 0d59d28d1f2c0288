"""Counts of pairs of words equal a naive count in any memory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from bertwright.data.counted_pairs import BYTES, CountedPairs, count_pairs

V = 11
COUNTS = np.arange(V)


def text() -> list[tuple[np.ndarray, np.ndarray]]:
    """Three chunks of two documents each."""
    draw = np.random.default_rng(3)
    return [
        (draw.integers(0, V, size).astype(np.int32), np.array([end, size]))
        for size, end in ((70, 31), (1, 1), (55, 1))
    ]


def naive(window: int) -> dict[tuple[int, int], float]:
    """X_ij, both i and j in either order."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for tokens, ends in text():
        for document in np.split(tokens, ends[:-1]):
            words = [int(word) for word in document if COUNTS[word]]
            for i, word in enumerate(words):
                for j in range(max(0, i - window), min(len(words), i + window + 1)):
                    if i != j:
                        found[word, words[j]] += 1 / abs(i - j)
    return found


@pytest.mark.parametrize("entries", [1000, 40, 3])
def test_counts_equal_a_naive_count(tmp_path: Path, entries: int) -> None:
    pairs = CountedPairs(tmp_path, entries * BYTES)
    count_pairs(text(), COUNTS, 4, pairs)
    assert bool(list(tmp_path.glob("run-*"))) == (entries < 1000)
    expected = naive(4)
    keys = np.concatenate([keys for keys, _ in pairs.merged()])
    assert (np.diff(keys) > 0).all()
    files = pairs.shuffled(seed=1)
    assert (len(files) > 1) == (entries < 1000)
    counted = {}
    for of_keys, of_values in files:
        for key, value in zip(np.fromfile(of_keys, np.int64), np.fromfile(of_values), strict=True):
            i, j = divmod(int(key), V)
            assert i <= j
            counted[i, j] = counted[j, i] = value * (2 if i == j else 1)
    assert counted.keys() == expected.keys()
    np.testing.assert_allclose([counted[pair] for pair in expected], list(expected.values()))
