"""A KV cache: the keys and values of the tokens read so far, kept for the tokens that follow.

A new token of each of R sequences attends to all tokens before it in its own sequence. Each
sequence's row begins at 0; keys past the end of a sequence are masked. The prompts themselves are
read without padding, as in training, whole or in parts.

Letters: R sequences, N tokens of their prompts, M cached tokens, L layers, A heads, D = H / A, S
capacity in tokens.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn.host import send, send_numbers
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.attention import (
    attend,
    attend_packed,
    attend_rows,
    heads_of,
    neighbours,
    row_bias,
)

SPARE = 64
"""The number of tokens by which the capacity grows."""
NEAR, SPARE_ROWS = 1.2, 128
"""Neighbouring rows share products while their padded keys are at most NEAR times the cached keys,
plus SPARE_ROWS."""


class KeyValueCache:
    """The keys and values of all layers, for R sequences."""

    def __init__(self, store: Tensor, lengths: list[int], segment: int = 0) -> None:
        self.store = store
        """`[L, 2, R, A, S, D]`: keys, values."""
        self.lengths = lengths
        """R numbers: the cached tokens of each sequence."""
        self.segment = segment
        """The segment of the tokens that follow."""
        self._blocks: list[tuple[slice, int, Tensor | None]] = []
        self._places: Tensor | None = None
        """`[2 R A]`: where the newest tokens are in the store of a layer, as rows of D numbers."""

    @classmethod
    def empty(cls, layers: int, heads: int, sequences: Sequences, like: Tensor) -> KeyValueCache:
        """Return a cache for prompts that are yet to be read, with the device and dtype of `like`
        `[..., H]`."""
        capacity, size = sequences.longest + SPARE, like.shape[-1] // heads
        store = like.new_zeros(layers, 2, sequences.count, heads, capacity, size)
        return cls(store, list(sequences.lengths))

    def read(self, layer: int, qkv: Tensor, sequences: Sequences, causal: bool = True) -> Tensor:
        """Store the keys and values of the prompts in one layer, and compute their attention to
        themselves: qkv `[N, 3 H]` -> `[N, H]`."""
        heads = self.store.shape[3]
        self._put(layer, qkv, sequences)
        return attend_packed(qkv, heads, sequences, causal=causal)

    def read_further(
        self, layer: int, qkv: Tensor, sequences: Sequences, keys: Sequences
    ) -> Tensor:
        """Store the keys and values of further tokens in one layer, after `make_room`, and compute
        their attention to the tokens up to themselves.

        Args:
            layer: the number of the layer, from 0.
            qkv: `[N, 3 H]`.
            sequences: the R numbers of further tokens, which sum to N.
            keys: the R lengths with them, which sum to M.

        Returns:
            `[N, H]`.
        """
        self._put(layer, qkv, sequences)
        rows = enumerate(self.lengths)
        cached = torch.cat([self.store[layer, :, n, :, :length] for n, length in rows], 2)
        k, v = cached.transpose(1, 2).unbind(0)  # [M, A, D]
        q = qkv.view(len(qkv), 3, self.store.shape[3], -1)[:, 0]
        return attend(q, k, v, sequences, keys, causal=True)

    def _put(self, layer: int, qkv: Tensor, sequences: Sequences) -> None:
        """Store the keys and values of the last tokens of each sequence."""
        rows = qkv.view(len(qkv), 3, self.store.shape[3], -1)[:, 1:]
        for number, part in enumerate(torch.split(rows, sequences.lengths)):
            end = self.lengths[number]
            place = self.store[layer, :, number, :, end - len(part) : end]
            place.copy_(part.permute(1, 2, 0, 3))  # [2, A, T, D]

    def make_room(self, more: Iterable[int]) -> None:
        """Make room for so many further tokens of each sequence; called before the first layer
        reads them."""
        self.lengths = [length + own for length, own in zip(self.lengths, more, strict=True)]
        self.store = _with_capacity(self.store, max(self.lengths), SPARE)

    def grow(self) -> None:
        """Make room for one more token of each sequence; called before the first layer reads it."""
        self.make_room([1] * len(self.lengths))
        self._blocks = _blocks(self.lengths, self.store)
        lasts = send_numbers(self.lengths, self.store.device) - 1
        _, both, rows, heads, capacity, _ = self.store.shape
        first = torch.arange(0, both * rows * heads * capacity, capacity, device=lasts.device)
        self._places = (first.view(both, rows, heads) + lasts[:, None]).flatten()

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Store the key and value of a new token of each sequence in one layer, and compute its
        attention: qkv `[R, 3 H]` -> `[R, H]`."""
        own = self.store[layer]
        keys, values = own  # [R, A, S, D]
        q, k, v = heads_of(qkv[:, None], keys.shape[1], 3)  # [R, A, 1, D]
        assert self._places is not None
        new = torch.stack([k, v]).view(-1, k.shape[3])
        own.view(-1, k.shape[3])[self._places] = new
        context = [
            attend_rows(q[rows], keys[rows, :, :longest], values[rows, :, :longest], bias)
            for rows, longest, bias in self._blocks
        ]
        return (torch.cat(context) if len(context) > 1 else context[0])[:, 0]

    def select(self, rows: Tensor) -> KeyValueCache:
        """Return the cache of these rows `[r]`, in this order; see `decoding/search.py`."""
        numbers = rows.tolist()
        if numbers == list(range(len(self.lengths))):
            return self
        lengths = [self.lengths[row] for row in numbers]
        longest = max(lengths)
        store = self.store[..., : longest + SPARE, :].index_select(2, send(rows, self.store.device))
        return KeyValueCache(store, lengths, self.segment)

    def join(self, other: KeyValueCache) -> KeyValueCache:
        """Return the cache of the rows of both, one after the other."""
        capacity = max(self.store.shape[4], other.store.shape[4])
        stores = [_with_capacity(store, capacity) for store in (self.store, other.store)]
        return KeyValueCache(torch.cat(stores, 2), self.lengths + other.lengths, self.segment)


def _with_capacity(store: Tensor, tokens: int, spare: int = 0) -> Tensor:
    """Return the store, enlarged if it is too small for this number of tokens."""
    more = tokens - store.shape[4]
    return F.pad(store, (0, 0, 0, max(more, spare))) if more > 0 else store


def _blocks(lengths: list[int], store: Tensor) -> list[tuple[slice, int, Tensor | None]]:
    """Split the rows into runs of neighbours of nearly equal lengths.

    Returns:
        For each run its rows, the longest length and a bias `[r, 1, 1, S]` that masks the keys past
        the end of each row; None where all are equally long.
    """
    blocks: list[tuple[slice, int, Tensor | None]] = []
    ones = [1] * len(lengths)
    near = math.inf if store.is_cuda else NEAR  # launching a kernel takes longer than padding
    for rows in neighbours(ones, lengths, sys.maxsize, near, SPARE_ROWS):
        bias = row_bias(ones[rows], lengths[rows], 1)
        if bias is not None:
            bias = send(bias[:, None].to(store.dtype), store.device)
        blocks.append((rows, max(lengths[rows]), bias))
    return blocks


def read_prompts(
    layers: Iterable[Any], x: Tensor, sequences: Sequences
) -> tuple[Tensor, KeyValueCache]:
    """Run prompts through Transformer layers, with the attention of training.

    x `[N, H]` -> the last layer at the last token of each prompt `[B, H]`, and the cache.
    """
    layers = list(layers)
    cache = KeyValueCache.empty(len(layers), layers[0].attention.heads, sequences, x)
    last = sequences.cu_seqlens[1:].long() - 1
    for number, layer in enumerate(layers):
        read = last if number == len(layers) - 1 else None
        causal = layer.attention.causal
        x = layer(
            x, sequences, read, partial(cache.read, number, sequences=sequences, causal=causal)
        )
    return x, cache


def read_further(
    layers: Iterable[Any], x: Tensor, sequences: Sequences, cache: KeyValueCache
) -> Tensor:
    """Run further tokens of each sequence through the layers, after `cache.make_room`.

    x `[N, H]` -> the last layer at the last token of each sequence `[R, H]`.
    """
    layers = list(layers)
    keys = Sequences(cache.lengths, x.device)
    last = sequences.cu_seqlens[1:].long() - 1
    for number, layer in enumerate(layers):
        read = last if number == len(layers) - 1 else None
        attends = partial(cache.read_further, number, sequences=sequences, keys=keys)
        x = layer(x, sequences, read, attends)
    return x


def read_token(layers: Iterable[Any], x: Tensor, cache: KeyValueCache) -> Tensor:
    """Run one more token of each sequence through the layers, after `cache.grow()`.

    x `[R, H]` -> `[R, H]`.
    """
    sequences = Sequences([1] * len(x), x.device)
    for number, layer in enumerate(layers):
        x = layer(x, sequences, None, partial(cache.attend, number))
    return x
