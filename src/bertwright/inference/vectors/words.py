"""A table with a vector for each word of a vocabulary.

Letters: V words, H width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bertwright.arrays import Float32s
from bertwright.errors import DataError
from bertwright.inference.vectors.embed import normalized
from bertwright.text.tokenizer.file_words import spellings


def no_vector(word: str, count: int) -> DataError:
    """Return the error for a word that a table of `count` words has no vector for."""
    return DataError(
        f"{word!r} is none of the {count:,} words of the vocabulary; fastText makes vectors for "
        "such words"
    )


@dataclass
class WordTable:
    """Words, in the order of the vocabulary (often the most frequent first), and their vectors."""

    words: Sequence[str]
    vectors: Float32s
    """`[V, H]`; memory-mapped if it is from one of our folders."""
    unseen: Callable[[str], Float32s | None] = field(default=lambda word: None)
    """Returns the vector `[H]` of a word that is not in the table, or None if the model cannot
    compute one.
    """
    notes: tuple[str, ...] = ()
    """Messages for the user about what was left out or replaced while reading."""

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def unit(self) -> Float32s:
        """The vectors scaled to length 1, `[V, H]`; a zero vector stays zero."""
        return normalized(self.vectors)

    def spelling(self, word: str) -> str | None:
        """Return the word as it is spelled in the table, where its capitalization may differ; None
        if it is not in the table.
        """
        return next((each for each in spellings(word) if each in self.row), None)

    def vector(self, word: str) -> Float32s | None:
        """Return the vector `[H]` of a word, of length 1; None if there is none."""
        known = self.spelling(word)
        vector = self.unseen(word) if known is None else self.vectors[self.row[known]]
        return None if vector is None else normalized(vector[None])[0]

    def require(self, word: str) -> Float32s:
        """Return the `vector` of a word; raise DataError if there is none."""
        if (vector := self.vector(word)) is not None:
            return vector
        raise no_vector(word, len(self.words))

    def nearest(
        self, vector: Float32s, top: int, without: Sequence[str] = ()
    ) -> list[tuple[str, float]]:
        """Return the `top` words with the largest cosine to a vector `[H]`, and the cosines.

        The words in `without` are left out.
        """
        cosines = self.unit @ normalized(vector[None])[0]
        left_out = [self.row[word] for word in without if word in self.row]
        cosines[left_out] = -np.inf
        top = min(top, len(cosines) - len(left_out))
        rows = np.argpartition(-cosines, max(0, top - 1))[:top]
        rows = rows[np.argsort(-cosines[rows])]
        return [(self.words[row], float(cosines[row])) for row in rows.tolist()]
