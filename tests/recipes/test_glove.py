"""GloVe: counts equal a naive count in any memory, a step is the gradient of the formula."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.data.counted_pairs import BYTES, CountedPairs, count_pairs

V, H = 11, 5
COUNTS = np.array([0, *range(1, V)])


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


def test_a_step_is_the_gradient_of_the_formula() -> None:
    kernels = pytest.importorskip("bertwright.models.word_vectors.kernels")
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(2, V, H, generator=generator).double()
    biases = torch.randn(2, V, generator=generator).double()
    squares = [torch.rand(x.shape, generator=generator).double() + 1 for x in (vectors, biases)]
    entries = [(3, 7, 2.5), (4, 4, 80.0), (7, 9, 0.2)]
    ours = [x.float().numpy().copy() for x in (vectors, biases, *squares)]
    keys = np.array([i * V + j for i, j, _ in entries])
    sums = np.array([x for *_, x in entries])
    order = np.array([2, 0, 1])
    loss, count = kernels.train_cooccurrences(keys, sums, order, *ours, 100.0, 0.75, 0.05)
    expected = 0.0
    steps = [
        (i, j, x) for n in order for i, j, x in (entries[n], (*entries[n][1::-1], entries[n][2]))
    ][:5]
    for i, j, x in steps:
        x *= 1 + (i == j)
        vectors.requires_grad_(), biases.requires_grad_()
        f = min(1.0, (x / 100) ** 0.75)
        score = vectors[0, i] @ vectors[1, j] + biases[0, i] + biases[1, j] - np.log(x)
        value = f * score**2 / 2
        gradients = torch.autograd.grad(value, (vectors, biases))
        new = []
        for each, square, gradient in zip((vectors, biases), squares, gradients, strict=True):
            new.append((each - 0.05 * gradient / square.sqrt()).detach())
            square += (0.05 * gradient) ** 2
        vectors, biases = new
        expected += value.item()
    assert (count, loss) == (5, pytest.approx(expected, rel=1e-5))
    for mine, reference in zip(ours, (vectors, biases, *squares), strict=True):
        np.testing.assert_allclose(mine, reference.numpy(), rtol=1e-5, atol=1e-6)
