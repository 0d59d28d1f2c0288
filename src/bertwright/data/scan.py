"""One pass over all tokens of a built corpus: what occurs how often, and which sentences repeat.

Memory is bounded: tokens are read in chunks, and of very many sentences those are kept whose hash
falls in a share that halves whenever too many are kept. As equal sentences have equal hashes, the
share of repeated ones among the kept is that of the whole corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertwright.data.randomness import Int64s, UInt64s, make_key, mix
from bertwright.data.shards import Shards
from bertwright.errors import IntegrityError
from bertwright.progress import OnProgress, silent

CHUNK_TOKENS = 1 << 20
MOST_KEPT = 1 << 21
SHORTEST = 8
"""Sentences of fewer tokens ("Yes.", "Chapter 1") repeat without harm and are not counted."""


@dataclass(frozen=True)
class Scan:
    """What a pass over the tokens found."""

    id_counts: Int64s
    """[V]: how often each id occurs."""
    sentences_compared: int
    """Sentences of `SHORTEST` tokens or more that were compared."""
    repeated_share: float
    """Of these, the share that came before."""
    most_repeated: int | None
    """The sentence that occurs most often, if any occurs twice."""
    most_repeated_times: int


def scan_shards(shards: Shards, on_progress: OnProgress = silent) -> Scan:
    """Read every token once.

    Raises:
        IntegrityError: an id is not of the vocabulary.
    """
    counts = np.zeros(shards.vocab_size, np.int64)
    key = make_key("sentences")
    hashes: UInt64s = np.zeros(0, np.uint64)
    sentences: Int64s = np.zeros(0, np.int64)
    mask = np.uint64(0)
    for first, last in _chunks(shards):
        bounds = shards.sentence_tokens[first : last + 1]
        ids = shards.tokens(int(bounds[0]), int(bounds[-1]))
        if int(ids.max()) >= shards.vocab_size:
            raise IntegrityError(
                f"{shards.folder} holds the id {int(ids.max())}; its tokenizer has "
                f"{shards.vocab_size}: the files were changed; build the data again"
            )
        counts += np.bincount(ids, minlength=shards.vocab_size)
        lengths = np.diff(bounds)
        place = np.arange(len(ids)) - np.repeat(bounds[:-1] - bounds[0], lengths)
        found = np.add.reduceat(mix(key, (ids << 32) | place), bounds[:-1] - bounds[0])
        kept = (lengths >= SHORTEST) & ((found & mask) == 0)
        hashes = np.concatenate([hashes, found[kept]])
        sentences = np.concatenate([sentences, first + np.flatnonzero(kept)])
        while len(hashes) > MOST_KEPT:
            mask = mask << np.uint64(1) | np.uint64(1)
            kept = (hashes & mask) == 0
            if kept.all():
                break  # one sentence millions of times over: no share is small enough
            hashes, sentences = hashes[kept], sentences[kept]
        on_progress(int(bounds[-1]), shards.num_tokens)
    distinct, where, times = np.unique(hashes, return_index=True, return_counts=True)
    most = int(times.argmax()) if len(times) else 0
    repeats = bool(len(times)) and int(times[most]) > 1
    return Scan(
        id_counts=counts,
        sentences_compared=len(hashes),
        repeated_share=1 - len(distinct) / len(hashes) if len(hashes) else 0.0,
        most_repeated=int(sentences[where[most]]) if repeats else None,
        most_repeated_times=int(times[most]) if repeats else 0,
    )


def _chunks(shards: Shards) -> Iterator[tuple[int, int]]:
    """Runs of whole sentences of about `CHUNK_TOKENS`: (first, last + 1)."""
    first = 0
    while first < shards.num_sentences:
        goal = shards.sentence_tokens[first] + CHUNK_TOKENS
        last = int(np.searchsorted(shards.sentence_tokens, goal, side="right")) - 1
        last = min(max(last, first + 1), shards.num_sentences)
        yield first, last
        first = last
