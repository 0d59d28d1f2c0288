"""Framing: how the ids of one text, or of two, become the sequence that a model reads.

BERT reads `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, segment 0 up to the first [SEP] and 1 after
it (Devlin et al. 2019, section 3); a language model reads the same with its own tokens for begin
and end. A tokenizer without such tokens adds nothing.

Letters: B sequences, N tokens in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertwright.arrays import Int64s, ranges

Ids = Sequence[int]


def ends_of(special: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the ids of begin and end: BERT's [CLS] and [SEP], else a language model's own.

    Args:
        special: role -> id.

    Returns:
        None where the vocabulary has neither pair.
    """
    for begin, end in (("cls", "sep"), ("bos", "eos")):
        if begin in special and end in special:
            return special[begin], special[end]
    return None


@dataclass(frozen=True)
class Frames:
    """B framed sequences laid end to end, N tokens in all, before the texts are filled in."""

    ids: Int64s
    """`[N]`: the special tokens at their positions; the others are to be filled in."""
    lengths: Int64s
    """`[B]`: tokens of each sequence, special tokens included."""
    starts: Int64s
    """`[B]`: the position in N of each sequence's first token."""
    first: Int64s
    """The positions in N of the first texts' tokens, rising."""
    second: Int64s
    """The positions in N of the second texts' tokens, rising; empty without pairs."""


@dataclass(frozen=True)
class Framing:
    """Adds a model's special tokens: `BEGIN A END` and `BEGIN A END B END`."""

    begin: tuple[int, ...] = ()
    """The token before the first text; empty: nothing is added anywhere, and a pair is one text
    after the other."""
    end: tuple[int, ...] = ()
    """The token after each text."""

    def special_tokens(self, paired: bool = False) -> int:
        """Return how many tokens are added to one text, or to a pair."""
        return len(self.begin) + len(self.end) * (2 if paired else 1)

    def one(self, ids: Ids) -> list[int]:
        """Return the sequence of one text; its segments are all 0."""
        return [*self.begin, *ids, *self.end]

    def two(self, first: Ids, second: Ids) -> list[int]:
        """Return the sequence of a pair."""
        return [*self.begin, *first, *self.end, *second, *self.end]

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """Return the segment of each token, given the tokens of each text: 1 after the first
        END."""
        zeros = [0] * (first + self.special_tokens())
        return zeros + ([] if second is None else [1] * (second + len(self.end)))

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """Return where the tokens of each text are in the sequence, one slice a text."""
        start, after = len(self.begin), first + self.special_tokens()
        a = slice(start, start + first)
        return (a,) if second is None else (a, slice(after, after + second))

    def frames(self, first: Int64s, second: Int64s | None = None) -> Frames:
        """Lay out B sequences, or pairs, of which only the lengths are known.

        Args:
            first: `[B]`, tokens of each first text.
            second: `[B]`, tokens of each second text; None: no pairs.
        """
        middle = first + self.special_tokens()  # up to the first END, [B]
        lengths = middle if second is None else middle + second + len(self.end)
        starts = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), np.int64)
        for number, token in enumerate(self.begin):
            ids[starts + number] = token
        for number, token in enumerate(reversed(self.end), 1):
            ids[starts + middle - number] = token
            ids[starts + lengths - number] = token
        return Frames(
            ids,
            lengths,
            starts,
            ranges(starts + len(self.begin), first),
            np.zeros(0, np.int64) if second is None else ranges(starts + middle, second),
        )

    def segments_of(self, first: Int64s, second: Int64s) -> Int64s:
        """Return the segment of each token of B pairs laid end to end, `[N]`; see `frames`."""
        halves = np.stack([first + self.special_tokens(), second + len(self.end)], axis=1)
        return np.repeat(np.tile(np.arange(2), len(halves)), halves.ravel())
