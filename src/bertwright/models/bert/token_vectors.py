"""Initial token vectors from counts of co-occurrences.

Levy & Goldberg 2014 (Neural word embedding as implicit matrix factorization): skip-gram with
negative sampling approximates a factorization of the pointwise mutual information

    PMI(i, j) = log( n_ij N / (n_i m_j) ),    m_j ~ n_j^0.75

of a token and its context. The positive part of PMI is sparse, and its singular vectors are
computed in seconds. In a masked LM that is initialized with them, similar tokens have similar
vectors before the first step.

Letters: V vocabulary, H width, n_ij count of i and j at distances of 1 to `DISTANCE`.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bertwright.arrays import Float32s, Int64s

DISTANCE = 5
"""The maximum distance of two tokens that are counted as neighbours."""
PART = 8_000_000
"""The number of tokens that are counted at once, which bounds the memory."""


def make_token_vectors(tokens: Int64s, vocab_size: int, width: int, seed: int) -> Float32s:
    """Return vectors of unit mean square; tokens that do not occur have zeros.

    Args:
        tokens: ids of running text, `[N]`.
        vocab_size: V.
        width: H; if V is smaller, the last dimensions are 0.
        seed: the seed of the randomized decomposition (Halko et al. 2011).

    Returns:
        `[V, H]`.
    """
    from sklearn.utils.extmath import (
        randomized_svd,  # the import takes two seconds and only an initialization needs it
    )

    counts = count_neighbours(tokens, vocab_size)
    rank = min(width, vocab_size - 1)
    left, strengths, _ = randomized_svd(
        _positive_information(counts), rank, n_iter=2, random_state=seed
    )
    vectors = left * np.sqrt(strengths)
    vectors -= vectors.mean(0)
    size = np.sqrt((vectors**2).mean(1, keepdims=True))
    seen = np.asarray(counts.sum(1)) > 0
    unit = np.where(seen, vectors / np.maximum(size, 1e-12), 0.0)
    return np.pad(unit, ((0, 0), (0, width - rank))).astype(np.float32)


def count_neighbours(tokens: Int64s, vocab_size: int) -> scipy.sparse.csr_matrix:
    """Return n_ij in both directions, `[V, V]`."""
    shape = (vocab_size, vocab_size)
    total = scipy.sparse.csr_matrix(shape, dtype=np.float32)
    for start in range(0, len(tokens), PART):
        part = scipy.sparse.csr_matrix(shape, dtype=np.float32)
        for distance in range(1, DISTANCE + 1):
            after = tokens[start + distance : start + distance + PART]
            before = tokens[start : start + len(after)]
            ones = np.ones(len(after), np.float32)
            part = part + scipy.sparse.csr_matrix((ones, (before, after)), shape)
        total = total + part
    return total + total.T


def _positive_information(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Return the positive part of PMI, `[V, V]`, with smoothed context counts."""
    of_token = np.asarray(counts.sum(1)).ravel()
    of_context = of_token**0.75
    of_context *= of_token.sum() / max(of_context.sum(), 1e-12)
    pairs = counts.tocoo()
    scale = of_token[pairs.row] * of_context[pairs.col] / max(of_token.sum(), 1e-12)
    information = np.log(pairs.data / scale).astype(np.float32)
    positive = information > 0
    values = (information[positive], (pairs.row[positive], pairs.col[positive]))
    return scipy.sparse.csr_matrix(values, counts.shape)
