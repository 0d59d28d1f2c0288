"""Which characters a vocabulary knows.

Characters are kept from the most frequent down until the share asked for is covered. A character
that occurs in longer words is an entry twice, as "x" and as "##x", so that any word made of known
characters can be cut; one that always stands alone (punctuation, Chinese) is an entry once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bertwright.text.tokenizer.merges import MARK


@dataclass(frozen=True)
class Alphabet:
    """The characters kept, as vocabulary entries, and what was left out."""

    entries: list[str]
    """Bare characters by code point, then those with "##"."""
    characters: frozenset[str]
    dropped: list[str]
    """Characters left out, the most frequent first."""
    dropped_occurrences: int
    occurrences: int

    def covers(self, word: str) -> bool:
        """Whether every character of `word` is known."""
        return self.characters.issuperset(word)


def choose_alphabet(
    counts: Mapping[str, int], coverage: float, limit: int | None = None
) -> Alphabet:
    """The most frequent characters of the words of `counts`, ties by code point."""
    words = list(counts)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    times = np.repeat(np.fromiter(counts.values(), dtype=np.int64, count=len(words)), lengths)
    distinct, which = np.unique(codes, return_inverse=True)
    uses = np.bincount(which, times).astype(np.int64)
    in_longer = np.bincount(which, np.repeat(lengths > 1, lengths)) > 0

    order = np.lexsort((distinct, -uses))
    covered = np.cumsum(uses[order])
    total = int(covered[-1]) if len(covered) else 0
    kept = int(np.searchsorted(covered, math.ceil(total * coverage))) + 1
    kept = min(kept, len(order), len(order) if limit is None else limit)
    chosen, dropped = np.sort(order[:kept]), order[kept:]
    bare = [chr(code) for code in distinct[chosen].tolist()]
    marked = [MARK + chr(code) for code in distinct[chosen[in_longer[chosen]]].tolist()]
    return Alphabet(
        entries=bare + marked,
        characters=frozenset(bare),
        dropped=[chr(code) for code in distinct[dropped].tolist()],
        dropped_occurrences=int(uses[dropped].sum()),
        occurrences=total,
    )
