"""Framing: the special tokens that turn the ids of one text, or of two, into a model's sequence.

BERT reads `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, with segment 0 up to the first [SEP] and 1
after it (Devlin et al. 2019, section 3). RoBERTa reads `<s> A </s>` and `<s> A </s> </s> B </s>`. A
language model uses its own begin and end tokens instead. If a tokenizer has no such tokens, none
are added.

Letters: B sequences, N tokens in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertwright.arrays import Int64s, ranges

Ids = Sequence[int]


def ends_of(special: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the ids of the begin and end tokens: BERT's [CLS] and [SEP], else a language model's
    own.

    Args:
        special: role -> id.

    Returns:
        None if the vocabulary has neither pair.
    """
    for begin, end in (("cls", "sep"), ("bos", "eos")):
        if begin in special and end in special:
            return special[begin], special[end]
    return None


@dataclass(frozen=True)
class Frames:
    """B framed sequences laid end to end, before the tokens of the texts are filled in."""

    ids: Int64s
    """`[N]`: the special tokens at their positions; the other positions are not yet filled."""
    lengths: Int64s
    """`[B]`: the number of tokens of each sequence, including special tokens."""
    starts: Int64s
    """`[B]`: the position in N of each sequence's first token."""
    first: Int64s
    """The positions in N of the first texts' tokens, in ascending order."""
    second: Int64s
    """The positions in N of the second texts' tokens, in ascending order; empty without pairs."""


@dataclass(frozen=True)
class Framing:
    """Adds a model's special tokens: `BEGIN A END` and `BEGIN A END BETWEEN B END`."""

    begin: tuple[int, ...] = ()
    """The token before the first text. If it is empty, no token is added anywhere, and a pair is
    one text after the other.
    """
    end: tuple[int, ...] = ()
    """The token after each text."""
    between: tuple[int, ...] = ()
    """The token that follows the first END of a pair, as in RoBERTa; BERT has none."""

    def special_tokens(self, paired: bool = False) -> int:
        """Return the number of tokens that are added to one text, or to a pair."""
        second = len(self.between) + len(self.end) if paired else 0
        return len(self.begin) + len(self.end) + second

    def one(self, ids: Ids) -> list[int]:
        """Return the sequence of one text; its segments are all 0."""
        return [*self.begin, *ids, *self.end]

    def two(self, first: Ids, second: Ids) -> list[int]:
        """Return the sequence of a pair."""
        return [*self.begin, *first, *self.end, *self.between, *second, *self.end]

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """Return the segment of each token, given the number of tokens of each text: 1 after the
        first END.
        """
        zeros = [0] * (first + self.special_tokens())
        ones = 0 if second is None else len(self.between) + second + len(self.end)
        return zeros + [1] * ones

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """Return the slice of the sequence that holds each text's tokens."""
        start = len(self.begin)
        after = first + self.special_tokens() + len(self.between)
        a = slice(start, start + first)
        return (a,) if second is None else (a, slice(after, after + second))

    def frames(self, first: Int64s, second: Int64s | None = None) -> Frames:
        """Lay out B sequences, or pairs, given only the lengths of their texts.

        Args:
            first: `[B]`, the number of tokens of each first text.
            second: `[B]`, the number of tokens of each second text; None: no pairs.
        """
        middle = first + self.special_tokens()  # up to the first END, [B]
        after = middle + len(self.between)  # up to the second text, [B]
        lengths = middle if second is None else after + second + len(self.end)
        starts = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), np.int64)
        for number, token in enumerate(self.begin):
            ids[starts + number] = token
        for number, token in enumerate(reversed(self.end), 1):
            ids[starts + middle - number] = token
            ids[starts + lengths - number] = token
        if second is not None:
            for number, token in enumerate(self.between):
                ids[starts + middle + number] = token
        return Frames(
            ids,
            lengths,
            starts,
            ranges(starts + len(self.begin), first),
            np.zeros(0, np.int64) if second is None else ranges(starts + after, second),
        )

    def put(self, tokens: Int64s, at: Int64s, lengths: Int64s) -> None:
        """Write the special tokens of single texts into `tokens` `[N]`, in place.

        Args:
            tokens: a token each of N framed texts.
            at: `[N]`, the position of the token in its framed text.
            lengths: `[N]`, tokens of its text, special tokens not included.
        """
        for number, token in enumerate(self.begin):
            tokens[at == number] = token
        for number, token in enumerate(self.end, len(self.begin)):
            tokens[at == lengths + number] = token

    def segments_of(self, first: Int64s, second: Int64s) -> Int64s:
        """Return the segment of each token of B pairs laid end to end, `[N]`; see `frames`."""
        ones = len(self.between) + second + len(self.end)
        halves = np.stack([first + self.special_tokens(), ones], axis=1)
        return np.repeat(np.tile(np.arange(2), len(halves)), halves.ravel())


def framing_of(special: Mapping[str, int]) -> Framing:
    """Return the framing of a vocabulary: by its tokens for begin and end, or none.

    Args:
        special: role -> id.
    """
    ends = ends_of(special)
    return Framing() if ends is None else Framing(ends[:1], ends[1:])
