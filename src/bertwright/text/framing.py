"""Framing: how the ids of one text, or of two, become the sequence that a model reads.

BERT reads `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, segment 0 up to the first [SEP] and 1 after
it (Devlin et al. 2019, section 3); a language model reads the same with its own tokens for begin
and end. A tokenizer without such tokens adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Ids = Sequence[int]


def ends_of(special: Mapping[str, int]) -> tuple[int, int] | None:
    """The ids of begin and end among those of the roles: BERT's, else a language model's own."""
    for begin, end in (("cls", "sep"), ("bos", "eos")):
        if begin in special and end in special:
            return special[begin], special[end]
    return None


class Framing(Protocol):
    """Adds a model's special tokens."""

    def __hash__(self) -> int:
        """A framing is a value."""

    def special_tokens(self, paired: bool = False) -> int:
        """How many tokens are added to one text, or to a pair."""

    def one(self, ids: Ids) -> list[int]:
        """The sequence of one text; its segments are all 0."""

    def two(self, first: Ids, second: Ids) -> list[int]:
        """The sequence of a pair."""

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """The segment of each token of a sequence over texts of so many tokens."""

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """Where the texts' own tokens stand in the sequence, one slice a text."""


@dataclass(frozen=True)
class BosEos:
    """`BOS A EOS` and `BOS A EOS B EOS`: what language models read."""

    bos_id: int
    eos_id: int

    def special_tokens(self, paired: bool = False) -> int:
        """2, or 3 for a pair."""
        return 3 if paired else 2

    def one(self, ids: Ids) -> list[int]:
        """`BOS A EOS`"""
        return [self.bos_id, *ids, self.eos_id]

    def two(self, first: Ids, second: Ids) -> list[int]:
        """`BOS A EOS B EOS`"""
        return [self.bos_id, *first, self.eos_id, *second, self.eos_id]

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """0 up to the first EOS, 1 after it."""
        return [0] * (first + 2) + ([] if second is None else [1] * (second + 1))

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """After BOS, and after the first EOS."""
        a = slice(1, 1 + first)
        return (a,) if second is None else (a, slice(first + 2, first + 2 + second))


class ClsSep(BosEos):
    """`[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`: the same with BERT's tokens."""


@dataclass(frozen=True)
class Bare:
    """Nothing is added; a pair is one text after the other."""

    def special_tokens(self, paired: bool = False) -> int:
        """None."""
        return 0

    def one(self, ids: Ids) -> list[int]:
        """`A`"""
        return list(ids)

    def two(self, first: Ids, second: Ids) -> list[int]:
        """`A B`"""
        return [*first, *second]

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """0 in the first text, 1 in the second."""
        return [0] * first + [1] * (second or 0)

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """From the start, and after the first text."""
        a = slice(0, first)
        return (a,) if second is None else (a, slice(first, first + second))
