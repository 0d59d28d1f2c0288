"""Framing: how the ids of one text, or of two, become the sequence that a model reads.

BERT reads `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, segment 0 up to the first [SEP] and 1 after
it (Devlin et al. 2019, section 3); a language model reads the same with its own tokens for begin
and end. A tokenizer without such tokens adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Ids = Sequence[int]


def ends_of(special: Mapping[str, int]) -> tuple[int, int] | None:
    """The ids of begin and end among those of the roles: BERT's, else a language model's own."""
    for begin, end in (("cls", "sep"), ("bos", "eos")):
        if begin in special and end in special:
            return special[begin], special[end]
    return None


@dataclass(frozen=True)
class Framing:
    """Adds a model's special tokens: `BEGIN A END` and `BEGIN A END B END`."""

    begin: tuple[int, ...] = ()
    """The token before the first text; none: nothing is added anywhere, and a pair is one text
    after the other."""
    end: tuple[int, ...] = ()
    """The token after each text."""

    def special_tokens(self, paired: bool = False) -> int:
        """How many tokens are added to one text, or to a pair."""
        return len(self.begin) + len(self.end) * (2 if paired else 1)

    def one(self, ids: Ids) -> list[int]:
        """The sequence of one text; its segments are all 0."""
        return [*self.begin, *ids, *self.end]

    def two(self, first: Ids, second: Ids) -> list[int]:
        """The sequence of a pair."""
        return [*self.begin, *first, *self.end, *second, *self.end]

    def segments(self, first: int, second: int | None = None) -> list[int]:
        """The segment of each token of a sequence over texts of so many tokens: 1 after the first
        END."""
        zeros = [0] * (first + self.special_tokens())
        return zeros + ([] if second is None else [1] * (second + len(self.end)))

    def inside(self, first: int, second: int | None = None) -> tuple[slice, ...]:
        """Where the texts' own tokens stand in the sequence, one slice a text."""
        start, after = len(self.begin), first + self.special_tokens()
        a = slice(start, start + first)
        return (a,) if second is None else (a, slice(after, after + second))
