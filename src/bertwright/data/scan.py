"""One pass over all tokens of a built corpus: what occurs how often, and which sentences repeat.

Memory is bounded: tokens are read in chunks, and of very many distinct sentences those are kept
whose hash falls in a share that halves whenever too many are kept. How many are distinct in all is
told from that share; how many there are is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bertwright.arrays import Int64s, UInt64s
from bertwright.data.randomness import make_key, mix
from bertwright.data.shards import Shards
from bertwright.progress import OnProgress, silent

CHUNK_TOKENS = 1 << 20
MOST_KEPT = 1 << 20
SHORTEST = 8
"""Sentences of fewer tokens ("Yes.", "Chapter 1") repeat without harm and are not counted."""


@dataclass(frozen=True)
class Scan:
    """What a pass over the tokens found."""

    id_counts: Int64s
    """[V]: how often each id occurs."""
    repeated_share: float
    """Of the sentences of `SHORTEST` tokens or more, the share that came before."""
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
    repeats = _Repeats()
    for first, last in _chunks(shards):
        bounds = shards.sentence_tokens[first : last + 1]
        ids = shards.tokens(int(bounds[0]), int(bounds[-1]))
        counts += np.bincount(ids, minlength=shards.vocab_size)
        lengths = np.diff(bounds)
        place = np.arange(len(ids)) - np.repeat(bounds[:-1] - bounds[0], lengths)
        hashes = np.add.reduceat(mix(key, (ids << 32) | place), bounds[:-1] - bounds[0])
        long = np.flatnonzero(lengths >= SHORTEST)
        repeats.add(hashes[long], first + long)
        on_progress(int(bounds[-1]), shards.num_tokens)
    repeats.merge()
    most = int(repeats.times.argmax()) if len(repeats.times) else 0
    found = len(repeats.times) > 0 and int(repeats.times[most]) > 1
    return Scan(
        id_counts=counts,
        repeated_share=repeats.share,
        most_repeated=int(repeats.sentences[most]) if found else None,
        most_repeated_times=int(repeats.times[most]) if found else 0,
    )


@dataclass
class _Repeats:
    """Distinct sentences by their hashes, or a share of them, and how often each came."""

    total: int = 0
    hashes: UInt64s = field(default_factory=lambda: np.zeros(0, np.uint64))
    times: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    sentences: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """One place of each."""
    halvings: int = 0
    """Kept are hashes whose lowest bits, this many, are 0."""
    _new: list[tuple[UInt64s, Int64s]] = field(default_factory=list)
    _waiting: int = 0

    def add(self, hashes: UInt64s, sentences: Int64s) -> None:
        self.total += len(hashes)
        kept = self._kept(hashes)
        self._new.append((hashes[kept], sentences[kept]))
        self._waiting += len(kept)
        if self._waiting > MOST_KEPT:
            self.merge()

    def merge(self) -> None:
        """Take in what was added; halve the share while too many are kept."""
        hashes = np.concatenate([self.hashes, *(hashes for hashes, _ in self._new)])
        sentences = np.concatenate([self.sentences, *(places for _, places in self._new)])
        times = np.concatenate([self.times, np.ones(len(hashes) - len(self.times), np.int64)])
        self.hashes, where, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        self.sentences = sentences[where]
        self.times = np.bincount(inverse, times, len(where)).astype(np.int64)
        self._new, self._waiting = [], 0
        while len(self.hashes) > MOST_KEPT:
            self.halvings += 1
            kept = self._kept(self.hashes)
            self.hashes, self.times = self.hashes[kept], self.times[kept]
            self.sentences = self.sentences[kept]

    @property
    def share(self) -> float:
        """Of all sentences, the share that came before."""
        distinct = min(len(self.hashes) << self.halvings, self.total)
        return 1 - distinct / self.total if self.total else 0.0

    def _kept(self, hashes: UInt64s) -> Int64s:
        mask = np.uint64((1 << self.halvings) - 1)
        return np.flatnonzero((hashes & mask) == 0)


def _chunks(shards: Shards) -> Iterator[tuple[int, int]]:
    """Runs of whole sentences of about `CHUNK_TOKENS`: (first, last + 1)."""
    first = 0
    while first < shards.num_sentences:
        goal = shards.sentence_tokens[first] + CHUNK_TOKENS
        last = int(np.searchsorted(shards.sentence_tokens, goal, side="right")) - 1
        last = min(max(last, first + 1), shards.num_sentences)
        yield first, last
        first = last
