"""Where each sequence of a batch begins and ends, and what an encoder reads of a batch.

A batch is its sequences laid end to end, without padding: `[N]` tokens of `B` sequences. Linear
layers and norms see `[N, H]` rows; attention, recurrence and pooling alone need the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, TypeVar

import torch
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.ragged import owners_of

Made = TypeVar("Made")


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of equal length: `count` x `length` tokens from `start` to `stop`."""

    start: int
    stop: int
    count: int
    length: int


class Sequences:
    """B lengths that sum to N.

    Args:
        lengths: tokens of each sequence. Equal lengths side by side make attention fast on a CPU.
        device: where the index tensors live.
        prefixes: B lengths of what each sequence begins with, its source: in attention that is not
            causal a token there sees all of the source, one after it the source and what comes up
            to itself (the sequence-to-sequence mask of UniLM; Dong et al. 2019, section 2.1).
            None: every token sees every other.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        device: torch.device | str = "cpu",
        prefixes: Iterable[int] | None = None,
    ) -> None:
        lengths = [int(length) for length in lengths]
        if not lengths or min(lengths) < 1:
            raise ValueError(f"lengths are {lengths}; expected one or more, each 1 or more")
        self.lengths = lengths
        self.device = torch.device(device)
        self.offsets = [0, *accumulate(lengths)]
        self.prefixes = None if prefixes is None else [int(each) for each in prefixes]
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for all layers of a batch."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    @property
    def count(self) -> int:
        """B, the number of sequences."""
        return len(self.lengths)

    @property
    def total(self) -> int:
        """N, the number of tokens."""
        return self.offsets[-1]

    @cached_property
    def longest(self) -> int:
        """The longest length."""
        return max(self.lengths)

    @cached_property
    def groups(self) -> list[Group]:
        """Runs of equal lengths."""
        groups, start = [], 0
        for length, run in groupby(self.lengths):
            count = len(list(run))
            groups.append(Group(start, start + count * length, count, length))
            start += count * length
        return groups

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """Offsets of the sequences, then N: `[B + 1]` int32, as variable-length kernels want."""
        return send(torch.tensor(self.offsets, dtype=torch.int32), self.device)

    @cached_property
    def first(self) -> Tensor:
        """Position of each sequence's first token in the batch, `[B]`."""
        return self.cu_seqlens[:-1].long()

    @cached_property
    def positions(self) -> Tensor:
        """Each token's position in its own sequence, from 0, `[N]`."""
        starts = self.first.index_select(0, self.index)
        return torch.arange(self.total, device=self.device) - starts

    def last_tokens(self, count: int) -> Tensor:
        """The rows of the last C tokens up to each, its own first: `[N, C]`; N where a sequence has
        not so many."""
        rows, back = (torch.arange(n, device=self.device) for n in (self.total, count))
        return (rows[:, None] - back).where(back <= self.positions[:, None], self.total)

    @cached_property
    def index(self) -> Tensor:
        """Which sequence each token is of, `[N]`; on a GPU computed there from the offsets."""
        if self.device.type == "cpu":
            return owners_of(self.lengths, self.device)
        return torch.repeat_interleave(self.cu_seqlens.diff().long(), output_size=self.total)

    def padded(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """x `[N, ...]` as rows of the longest sequence, `[B, S, ...]`, with `fill` behind each."""
        full = x.new_full((self.count, self.longest, *x.shape[1:]), fill)
        return full.index_put_((self.index, self.positions), x)

    def bias(self, like: Tensor) -> Tensor:
        """`[B, S]`: 0 where a row of `padded` has a token, -inf behind it."""
        return self.padded(like.new_zeros(self.total), -torch.inf)


@dataclass(frozen=True)
class Inputs:
    """What an encoder reads: sequences laid end to end."""

    ids: Tensor
    """`[N]`; `[N, C]` where a token is several ids (its characters, its n-grams)."""
    sequences: Sequences
    """B lengths that sum to N."""
    segments: Tensor | None = None
    """`[N]`: 0 in the first text of a pair, 1 in the second; None: all 0."""
