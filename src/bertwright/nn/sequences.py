"""The layout of a batch: B sequences laid end to end without padding, `[N]` tokens in all.

Linear layers and norms work on `[N, H]` rows; only attention, recurrence and pooling need the
offsets of the sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.ragged import owners_of

Made = TypeVar("Made")


@dataclass(frozen=True)
class Group:
    """Consecutive sequences of equal length: `count` x `length` tokens from `start` to `stop`."""

    start: int
    stop: int
    count: int
    length: int


class Located(Protocol):
    """Sequences whose tokens have positions."""

    @property
    def positions(self) -> Tensor:
        """`[N]`, the position of each token in its sequence."""

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result of `make`, which is called once per key and shared by all layers."""


class BatchCache:
    """Caches values that every layer of a forward pass needs."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result of `make`, which is called once per key and shared by all layers."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made


class Sequences(BatchCache):
    """B lengths that sum to N.

    Args:
        lengths: the number of tokens of each sequence. Attention on a CPU is fast where sequences
            of equal length are consecutive.
        device: the device of the index tensors.
        prefixes: the length of each sequence's source, B numbers. In attention that is not causal,
            a token of the source sees the whole source, and a later token sees the source and the
            tokens up to itself (the sequence-to-sequence mask of UniLM; Dong et al. 2019, section
            2.1). None: every token sees every other.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        device: torch.device | str = "cpu",
        prefixes: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        lengths = [int(length) for length in lengths]
        if not lengths or min(lengths) < 1:
            raise ValueError(f"lengths are {lengths}; expected one or more, each 1 or more")
        self.lengths = lengths
        self.device = torch.device(device)
        self.offsets = [0, *accumulate(lengths)]
        self.prefixes = None if prefixes is None else [int(each) for each in prefixes]

    def to(self, device: torch.device | str) -> Sequences:
        """Return the same lengths with the index tensors on a device."""
        if torch.device(device) == self.device:
            return self
        return Sequences(self.lengths, device, self.prefixes)

    def with_padding(self, count: int) -> Sequences:
        """Return the same sequences with a further one of `count` tokens at the end; 0: these."""
        if count == 0:
            return self
        prefixes = None if self.prefixes is None else [*self.prefixes, count]
        return Sequences([*self.lengths, count], self.device, prefixes)

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
        """Return the number of tokens of the longest sequence."""
        return max(self.lengths)

    @cached_property
    def groups(self) -> list[Group]:
        """The runs of consecutive sequences of equal length."""
        groups, start = [], 0
        for length, run in groupby(self.lengths):
            count = len(list(run))
            groups.append(Group(start, start + count * length, count, length))
            start += count * length
        return groups

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """The offsets of the sequences, then N: `[B + 1]` int32, for variable-length kernels."""
        return send(torch.tensor(self.offsets, dtype=torch.int32), self.device)

    @cached_property
    def first(self) -> Tensor:
        """The position of each sequence's first token in the batch, `[B]`."""
        return self.cu_seqlens[:-1].long()

    @cached_property
    def last(self) -> Tensor:
        """The position of each sequence's last token in the batch, `[B]`."""
        return self.cu_seqlens[1:].long() - 1

    @cached_property
    def positions(self) -> Tensor:
        """The position of each token in its sequence, from 0, `[N]`."""
        starts = self.first.index_select(0, self.index)
        return torch.arange(self.total, device=self.device) - starts

    def last_tokens(self, count: int) -> Tensor:
        """Return, for each token, the rows of the last C tokens of its sequence up to itself,
        latest first, `[N, C]`; N stands for a token before the begin of the sequence."""
        rows, back = (torch.arange(n, device=self.device) for n in (self.total, count))
        return (rows[:, None] - back).where(back <= self.positions[:, None], self.total)

    @cached_property
    def index(self) -> Tensor:
        """The number of each token's sequence, `[N]`; on a GPU it is computed there from the
        offsets."""
        if self.device.type == "cpu":
            return owners_of(self.lengths, self.device)
        return torch.repeat_interleave(self.cu_seqlens.diff().long(), output_size=self.total)

    def padded(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """Return x `[N, ...]` as `[B, S, ...]`, padded with `fill` to the longest sequence, S."""
        full = x.new_full((self.count, self.longest, *x.shape[1:]), fill)
        return full.index_put_((self.index, self.positions), x)

    def bias(self, like: Tensor) -> Tensor:
        """Return the attention bias of keys in the layout of `padded`, `[B, S]`: 0 at tokens, -inf
        at padding."""
        return self.padded(like.new_zeros(self.total), -torch.inf)


@dataclass(frozen=True)
class Inputs:
    """The inputs of an encoder: sequences laid end to end."""

    ids: Tensor
    """`[N]`; `[N, C]` where a token consists of several ids (its characters, its n-grams)."""
    sequences: Sequences
    """B lengths that sum to N."""
    segments: Tensor | None = None
    """`[N]`: 0 in the first text of a pair, 1 in the second; None: all 0."""

    def to(self, device: torch.device | str) -> Inputs:
        """Return the inputs on a device; copies to CUDA do not block the host."""
        device = torch.device(device)
        if device == self.ids.device:
            return self
        sequences = self.sequences.to(device)
        if device.type != "cpu":
            _ = sequences.cu_seqlens  # the offsets are copied to the device with the batch
        segments = None if self.segments is None else send(self.segments, device)
        return Inputs(send(self.ids, device), sequences, segments)
