"""A built corpus for static word vectors: counts, chunks, sampling and Huffman codes.

This follows Mikolov et al. 2013b (see `models/word_vectors/objectives.py`), sections 2.1 to 2.3,
and Mikolov's word2vec.c where that differs.

Letters: V vocabulary, N tokens of a chunk, D documents in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from bertwright.arrays import Float32s, Float64s, Int32s, Int64s
from bertwright.data.shards import Shards
from bertwright.errors import DataError

CHUNK = 1 << 17
"""The number of tokens of a chunk. A context does not cross the end of a chunk or of a document."""


def chunk_spans(shards: Shards) -> list[tuple[int, int]]:
    """Return the position of the first token of each chunk, and the position after its last."""
    return list(pairwise([*range(0, shards.num_tokens, CHUNK), shards.num_tokens]))


def read_chunk(shards: Shards, start: int, stop: int) -> tuple[Int32s, Int64s]:
    """Return the ids of tokens `start` to `stop` - 1, `[N]`, and the positions among them where
    documents end, `[D]`.
    """
    ends = shards.sentence_tokens[shards.document_sentences]
    first, last = np.searchsorted(ends, [start + 1, stop])
    return shards.tokens(start, stop).astype(np.int32), np.append(ends[first:last], stop) - start


def chunks(shards: Shards) -> Iterator[tuple[Int32s, Int64s]]:
    """Yield every chunk, in order."""
    for span in chunk_spans(shards):
        yield read_chunk(shards, *span)


def count_words(shards: Shards) -> Int64s:
    """Return the number of occurrences of each word in the text, `[V]`; 0 for special tokens, which
    are not trained.
    """
    counts = np.zeros(shards.vocab_size, np.int64)
    left_out = sorted(shards.special_ids)
    longest = 0
    for tokens, ends in chunks(shards):
        counts += np.bincount(tokens, minlength=shards.vocab_size)
        if longest < 2:
            before = np.append(0, np.cumsum(~np.isin(tokens, left_out)))
            longest = int(np.diff(before[np.append(0, ends)]).max())
    counts[left_out] = 0
    different = np.count_nonzero(counts)
    if different < 2 or longest < 2:
        raise DataError(
            f"{shards.folder} has {different} different words of its vocabulary, {longest} in its "
            "longest document; word vectors need two or more in one: build it from more text, "
            "longer documents (--documents), or with a larger vocabulary"
        )
    return counts


def keep_probabilities(counts: Int64s, subsample: float) -> Float32s:
    """Return the probability with which an occurrence of each word is kept, `[V]`; 0 for words that
    are not trained.

    As in word2vec.c, it is sqrt(t/f) + t/f, where t is `subsample` and f is the word's fraction of
    the text; section 2.3 of the paper has only sqrt(t/f).
    """
    keep = (counts > 0).astype(np.float32)
    if subsample:
        ratio = subsample * counts.sum() / np.maximum(counts, 1)
        keep *= np.minimum(1, np.sqrt(ratio) + ratio).astype(np.float32)
    return keep


def alias_table(weights: Float64s) -> tuple[Float32s, Int32s]:
    """Return the table of Walker's alias method, which draws each word in proportion to its weight.

    The table has two arrays `[V]`. To draw a word, draw i uniformly from the words and a number
    from [0, 1). The word is i if the number is below the first array at i; otherwise it is the
    second array at i.
    """
    scaled = weights * (len(weights) / weights.sum())
    accept, other = np.ones(len(weights), np.float32), np.arange(len(weights), dtype=np.int32)
    small, large = [np.flatnonzero(rows).tolist() for rows in (scaled < 1, scaled >= 1)]
    left = scaled.tolist()
    while small and large:
        row, giver = small.pop(), large[-1]
        accept[row], other[row] = left[row], giver
        left[giver] -= 1 - left[row]
        if left[giver] < 1:
            small.append(large.pop())
    for row in small:  # left over by rounding
        if not weights[row]:
            accept[row], other[row] = 0, int(weights.argmax())
    return accept, other


def huffman_codes(counts: Int64s) -> tuple[Int64s, Int32s, Float32s]:
    """Return the path of every word with a count to the root of a Huffman tree.

    The three arrays are the start of each word's path `[V + 1]`, the inner nodes of all paths (0 to
    V - 2), and the branch below each of these nodes, 1 or 0.
    """
    words = np.flatnonzero(counts).tolist()
    parent: dict[int, tuple[int, int]] = {}  # node -> its parent and branch; inner nodes start at V
    size = len(counts)
    heap = [(int(counts[word]), word) for word in words]
    heapq.heapify(heap)
    for node in range(size, size + len(words) - 1):
        (one, left), (two, right) = heapq.heappop(heap), heapq.heappop(heap)
        parent[left], parent[right] = (node, 1), (node, 0)
        heapq.heappush(heap, (one + two, node))
    starts, nodes, branches = np.zeros(size + 1, np.int64), [], []
    for word in range(size):
        node = word
        while node in parent:
            node, branch = parent[node]
            nodes.append(node - size)
            branches.append(branch)
        starts[word + 1] = len(nodes)
    return starts, np.array(nodes, np.int32), np.array(branches, np.float32)
