"""Initial vectors of tokens, from counts of which tokens stand near each other.

Levy & Goldberg 2014 (Neural word embedding as implicit matrix factorization): what skip-gram with
negative sampling learns is close to a factorization of the pointwise mutual information

    PMI(i, j) = log( n_ij N / (n_i m_j) ),    m_j ~ n_j^0.75

of a token and its context; its positive part is sparse and its singular vectors are found in
seconds. A masked LM that is initialized with them knows from the start which tokens are alike.

Letters: V vocabulary, H width, n_ij weighted count of i and j within `WEIGHTS` of each other.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bertwright.arrays import Float32s, Int64s
from bertwright.data.shards import Shards

WEIGHTS = (1.0, 0.7, 0.4)
"""What a pair counts at a distance of 1, 2, 3 tokens."""


def sample_tokens(shards: Shards, documents: Int64s, most: int, seed: int) -> Int64s:
    """Tokens of some documents, drawn at random until there are `most`, end to end."""
    bounds = shards.sentence_tokens[shards.document_sentences]
    parts, left = [], most
    for document in np.random.default_rng(seed).permutation(documents):
        start, stop = int(bounds[document]), int(bounds[document + 1])
        parts.append(shards.tokens(start, min(stop, start + left)))
        left -= len(parts[-1])
        if left <= 0:
            break
    return np.concatenate(parts)


def make_token_vectors(tokens: Int64s, vocab_size: int, width: int, seed: int) -> Float32s:
    """Vectors of unit mean square; tokens that were not seen have zeros.

    Args:
        tokens: ids of running text, `[N]`.
        vocab_size: V.
        width: H; a vocabulary smaller than it leaves the last dimensions zero.
        seed: of the randomized decomposition (Halko et al. 2011).

    Returns:
        `[V, H]`.
    """
    from sklearn.utils.extmath import (
        randomized_svd,  # takes two seconds; only an initialization needs it
    )

    counts = _count_neighbours(tokens, vocab_size)
    rank = min(width, vocab_size - 1)
    left, strengths, _ = randomized_svd(
        _positive_information(counts), rank, n_iter=1, random_state=seed
    )
    vectors = left * np.sqrt(strengths)
    vectors -= vectors.mean(0)
    size = np.sqrt((vectors**2).mean(1, keepdims=True))
    seen = np.asarray(counts.sum(1)) > 0
    unit = np.where(seen, vectors / np.maximum(size, 1e-12), 0.0)
    return np.pad(unit, ((0, 0), (0, width - rank))).astype(np.float32)


def _count_neighbours(tokens: Int64s, vocab_size: int) -> scipy.sparse.csr_matrix:
    """n_ij, `[V, V]`, both ways."""
    shape = (vocab_size, vocab_size)
    total = scipy.sparse.csr_matrix(shape, dtype=np.float32)
    for distance, weight in enumerate(WEIGHTS, 1):
        before, after = tokens[:-distance], tokens[distance:]
        values = np.full(len(before), weight, np.float32)
        total = total + scipy.sparse.csr_matrix((values, (before, after)), shape)
    return total + total.T


def _positive_information(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """The positive part of PMI, `[V, V]`, with context counts smoothed."""
    of_token = np.asarray(counts.sum(1)).ravel()
    of_context = of_token**0.75
    of_context *= of_token.sum() / max(of_context.sum(), 1e-12)
    pairs = counts.tocoo()
    scale = of_token[pairs.row] * of_context[pairs.col] / max(of_token.sum(), 1e-12)
    information = np.log(pairs.data / scale).astype(np.float32)
    kept = information > 0
    values = (information[kept], (pairs.row[kept], pairs.col[kept]))
    return scipy.sparse.csr_matrix(values, counts.shape)
