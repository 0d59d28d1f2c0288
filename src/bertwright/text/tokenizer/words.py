"""A vocabulary of whole words: the most frequent ones, as word2vec and the n-gram models use.

Every other word is `[UNK]`. There are no "##" entries, so longest match first, which all
vocabularies here run with, either finds the whole word or gives it up.
"""

from __future__ import annotations

from collections.abc import Mapping


def most_frequent(counts: Mapping[str, int], size: int, min_frequency: int) -> list[str]:
    """The `size` most frequent words seen at least `min_frequency` times, ties by spelling."""
    often = [(-count, word) for word, count in counts.items() if count >= min_frequency]
    return [word for _, word in sorted(often)[:size]]
