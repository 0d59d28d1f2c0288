"""Documents that came before: exactly, or nearly.

Exact: a set of 8-byte hashes of the texts, some 70 bytes a document. Two of a million documents
share such a hash with a probability of 3e-8.

Near: MinHash with locality-sensitive bands (Broder 1997; Leskovec, Rajaraman and Ullman, "Mining of
Massive Datasets", section 3.4). A document is the set of its shingles: five words in a row, or five
characters where the script has no spaces. Its signature holds, for each of K = 64 hash functions,
the least value over the set; two signatures agree in a fraction of values that estimates the
Jaccard similarity J (standard deviation 0.05 at 0.8). 16 bands of 4 values find candidates (a pair
of J = 0.8 is found with probability 0.9998), whose signatures must then agree in 0.8 of the values.
Memory is bounded: the last 2**20 documents are remembered, at most 320 MiB, used as they come.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SIMILARITY = 0.8
"""Fraction of equal values in the signatures from which two documents are near duplicates."""
REMEMBERED = 1 << 20
"""How many documents near deduplication looks back."""

_VALUES = 64
_BANDS = 16
_SHINGLE = 5
_CHUNK = 1 << 11  # shingles hashed at once: 64 * 2048 * 4 bytes stay in the cache
_MIX = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd


def hash_text(text: str) -> int:
    """Eight bytes of BLAKE2 over a text."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


class ExactDuplicates:
    """Finds documents equal to one before."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def met(self, text: str) -> bool:
        """Whether the same text came before; it is remembered."""
        before = len(self._seen)
        self._seen.add(hash_text(text))
        return len(self._seen) == before


class NearDuplicates:
    """Finds documents nearly equal to one of the last `REMEMBERED`."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        # Pages of zeros cost no memory before they are written.
        self._signatures = np.zeros((remembered, _VALUES), np.uint32)
        self._tables = np.zeros((_BANDS, remembered), np.uint32)
        self._bands = np.arange(_BANDS)
        self._count = 0

    def met(self, text: str) -> bool:
        """Whether the text is like one before; else it is remembered.

        Texts of fewer than five words or characters are like equal ones only.
        """
        mine = signature(text)
        if mine is None:
            return False
        remembered = len(self._signatures)
        bands = mine.reshape(_BANDS, -1).astype(np.uint64)
        with np.errstate(over="ignore"):
            keys = bands[:, 0]
            for column in range(1, bands.shape[1]):
                keys = (keys ^ bands[:, column]) * np.uint64(_MIX)
                keys ^= keys >> np.uint64(29)
        slots = (keys % np.uint64(remembered)).astype(np.int64)
        candidates = self._tables[self._bands, slots]
        # An empty slot points to document 0: a wrong candidate costs a comparison, no more.
        like = (self._signatures[candidates] == mine).mean(axis=1)
        if self._count and bool((like >= SIMILARITY).any()):
            return True
        slot = self._count % remembered
        self._signatures[slot] = mine
        self._tables[self._bands, slots] = slot
        self._count += 1
        return False


def _multipliers() -> NDArray[np.uint32]:
    state, odd = 1, []
    for _ in range(_VALUES):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        odd.append(state >> 32 | 1)
    return np.array(odd, np.uint32)


_MULTIPLIERS = _multipliers()


def signature(text: str) -> NDArray[np.uint32] | None:
    """The MinHash signature [64] of a text, or None for one without a word."""
    text = text.lower()
    words = text.encode("utf-8", "replace").split()
    if not words:
        return None
    if len(text) > 20 * len(words):  # no spaces: Chinese, Japanese, Thai
        codes = "".join(text.split()).encode("utf-32-le", "replace")
        units = np.frombuffer(codes, np.uint32).astype(np.uint64)
    else:
        units = np.fromiter(map(zlib.crc32, words), np.uint64, len(words))
    width = min(_SHINGLE, len(units))
    count = len(units) - width + 1
    shingles = np.zeros(count, np.uint64)
    with np.errstate(over="ignore"):
        for shift in range(width):
            shingles = (shingles ^ units[shift : shift + count]) * np.uint64(_MIX)
            shingles ^= shingles >> np.uint64(31)
        # Well mixed already, so 32 bits and one odd factor a hash function are enough.
        short = (shingles >> np.uint64(32)).astype(np.uint32)
        least = np.full(_VALUES, (1 << 32) - 1, np.uint32)
        for begin in range(0, count, _CHUNK):
            hashed = short[None, begin : begin + _CHUNK] * _MULTIPLIERS[:, None]
            np.minimum(least, hashed.min(axis=1), out=least)
    return least
