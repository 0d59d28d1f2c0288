"""A KV cache: the keys and values of the tokens read so far, kept for the tokens that follow.

A new token of each of R sequences attends to all tokens before it in its own sequence. Each
sequence's row begins at 0; keys past the end of a sequence are masked. The prompts themselves are
read without padding, as in training, whole or in parts. Keys are stored as scores use them
(`SelfAttention.parts`), so rotary positions are applied once.

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
from bertwright.nn.transformer.attention import SelfAttention, attend
from bertwright.nn.transformer.blocks import neighbours, row_bias, split

SPARE = 64
"""The number of tokens by which the capacity grows."""
NEAR, SPARE_ROWS = 1.2, 128
"""Consecutive rows share products while their padded keys are at most NEAR times the cached keys,
plus SPARE_ROWS."""


KeysValues = tuple[Tensor, Tensor]
"""Keys and values of R rows, `[R, A, S, D]` each."""


class KeyValueCache:
    """The keys and values of all layers, for R sequences."""

    def __init__(self, store: Tensor, lengths: list[int], segment: int = 0) -> None:
        self.store = store
        """`[L, 2, R, A, S, D]`: the keys and the values of each layer."""
        self.lengths = lengths
        """R numbers: the number of cached tokens of each sequence."""
        self.segment = segment
        """The segment of the tokens that follow."""
        self._blocks: list[tuple[slice, int, Tensor | None]] = []
        self._lasts: Tensor | None = None
        """`[R]`: the positions of the newest tokens."""
        self._positions: Tensor | None = None
        """`[S]`: the positions of cached tokens, up to the last of the longest sequence."""
        self._places: Tensor | None = None
        """`[2 R A]`: the indices of the newest tokens in the store of a layer, as rows of width
        D."""

    @classmethod
    def empty(cls, layers: int, heads: int, sequences: Sequences, like: Tensor) -> KeyValueCache:
        """Return an empty cache for prompts that will be read next.

        It has the device and dtype of `like` `[..., H]`.
        """
        capacity, size = sequences.longest + SPARE, like.shape[-1] // heads
        store = like.new_zeros(layers, 2, sequences.count, heads, capacity, size)
        return cls(store, list(sequences.lengths))

    @classmethod
    def of_rows(cls, layers: int, rows: int, like: Tensor) -> KeyValueCache:
        """Return the cache of rows that have read no token yet.

        It has the heads, their width, the device and the dtype of `like` `[..., A, S, D]`.
        """
        heads, size = like.shape[-3], like.shape[-1]
        return cls(like.new_zeros(layers, 2, rows, heads, SPARE, size), [0] * rows)

    def read(
        self, layer: int, attention: SelfAttention, qkv: Tensor, sequences: Sequences
    ) -> Tensor:
        """Store the keys and values of the prompts in one layer. Return the attention of the
        prompts to themselves: qkv `[N, 3 H]` -> `[N, H]`."""
        parts = attention.parts(qkv, sequences)
        self._put(layer, parts, sequences)
        return attention.attend(parts, sequences)

    def read_further(
        self,
        layer: int,
        attention: SelfAttention,
        qkv: Tensor,
        sequences: Sequences,
        positions: Tensor,
        keys: Sequences,
    ) -> Tensor:
        """Store the keys and values of further tokens in one layer. Return the attention of these
        tokens to the tokens up to themselves. Call `make_room` first.

        Args:
            layer: the number of the layer, from 0.
            attention: the attention of this layer.
            qkv: `[N, 3 H]`.
            sequences: the R numbers of further tokens, which sum to N.
            positions: `[N]`, the positions of the tokens.
            keys: the R lengths that include the further tokens, which sum to M.

        Returns:
            `[N, H]`.
        """
        parts = attention.parts(qkv, sequences, positions)
        self._put(layer, parts, sequences)
        q = split(parts)[0]
        rows = [self.store[layer, :, n, :, :length] for n, length in enumerate(self.lengths)]
        if attention.bias_between(positions[:1], positions[:1]) is None:
            keys_values = torch.cat(rows, 2).permute(2, 0, 1, 3)  # [M, 2, A, D]
            return attend([q[:, None], keys_values], sequences, keys, causal=True)
        each_q, each_positions = (torch.split(x, sequences.lengths) for x in (q, positions))
        each = zip(each_q, each_positions, rows, strict=True)
        return torch.cat([_attend_one(attention, own, at, *row) for own, at, row in each])

    def _put(self, layer: int, parts: list[Tensor], sequences: Sequences) -> None:
        """Store the keys and values of the last tokens of each sequence."""
        rows = torch.stack(split(parts)[1:])  # [2, N, A, D]
        for number, part in enumerate(torch.split(rows, sequences.lengths, 1)):
            end = self.lengths[number]
            place = self.store[layer, :, number, :, end - part.shape[1] : end]
            place.copy_(part.transpose(1, 2))  # [2, A, T, D]

    def make_room(self, more: Iterable[int]) -> None:
        """Make room for `more` further tokens of each sequence. Call it before the first layer
        reads them."""
        self.lengths = [length + own for length, own in zip(self.lengths, more, strict=True)]
        self.store = _with_capacity(self.store, max(self.lengths), SPARE)

    def grow(self) -> None:
        """Make room for one more token of each sequence. Call it before the first layer reads
        it."""
        self.make_room([1] * len(self.lengths))
        self._blocks = _blocks(self.lengths, self.store)
        self._lasts = lasts = send_numbers(self.lengths, self.store.device) - 1
        self._positions = torch.arange(max(self.lengths), device=lasts.device)
        _, both, rows, heads, capacity, _ = self.store.shape
        first = torch.arange(0, both * rows * heads * capacity, capacity, device=lasts.device)
        self._places = (first.view(both, rows, heads) + lasts[:, None]).flatten()

    def attend(
        self, layer: int, attention: SelfAttention, qkv: Tensor, sequences: Sequences
    ) -> Tensor:
        """Store the key and value of a new token of each sequence in one layer. Return the
        attention of the new tokens: qkv `[R, 3 H]` of R sequences of one token -> `[R, H]`."""
        own = self.store[layer]
        keys, values = own  # [R, A, S, D]
        assert self._lasts is not None
        assert self._positions is not None
        q, k, v = split(attention.parts(qkv, sequences, self._lasts))  # [R, A, D]
        own.view(-1, k.shape[2])[self._places] = torch.stack([k, v]).view(-1, k.shape[2])
        context = []
        for rows, longest, bias in self._blocks:
            positions = self._positions[:longest]
            by_distance = attention.bias_between(self._lasts[rows], positions)  # [A, r, S]
            if by_distance is not None:
                by_row = by_distance.transpose(0, 1)[:, :, None].to(q.dtype)  # [r, A, 1, S]
                bias = by_row if bias is None else bias + by_row
            past = keys[rows, :, :longest], values[rows, :, :longest]
            context.append(attend_rows(q[rows, :, None], *past, bias))
        return (torch.cat(context) if len(context) > 1 else context[0])[:, 0]

    def select(self, rows: Tensor) -> KeyValueCache:
        """Return the cache of the given rows `[r]`, in this order; see `decoding/search.py`."""
        numbers = rows.tolist()
        if numbers == list(range(len(self.lengths))):
            return self
        lengths = [self.lengths[row] for row in numbers]
        longest = max(lengths)
        # there is room for one token: a beam search selects rows after every token
        store = self.store[..., : longest + 1, :].index_select(2, send(rows, self.store.device))
        return KeyValueCache(store, lengths, self.segment)

    def join(self, other: KeyValueCache) -> KeyValueCache:
        """Return the cache of the rows of this cache, followed by those of the other."""
        capacity = max(self.store.shape[4], other.store.shape[4])
        stores = [_with_capacity(store, capacity) for store in (self.store, other.store)]
        return KeyValueCache(torch.cat(stores, 2), self.lengths + other.lengths, self.segment)


def _attend_one(
    attention: SelfAttention, q: Tensor, positions: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """Return the attention of further tokens of one sequence, where scores depend on distances.

    q `[T, A, D]` at `positions` `[T]`, keys and values `[A, S, D]` -> `[T, A D]`.
    """
    places = torch.arange(keys.shape[1], device=q.device)
    bias = attention.bias_between(positions, places)
    later = places > positions[:, None]  # [T, S]
    assert bias is not None
    bias = bias.to(q.dtype).masked_fill(later, -torch.inf)
    return attend_rows(q.transpose(0, 1)[None], keys[None], values[None], bias)[0]


def attend_rows(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute attention over rows of one length, as in a cache of keys and values.

    It uses plain products. With one or few queries, a fused kernel takes up to six times as long on
    a CPU, and on a GPU cuDNN plans it again for each number of keys. With one query in bfloat16 on
    a CPU, `K q` is twice as fast as `q K^T`.

    Args:
        q: `[B, A, T, D]`.
        k: `[B, A, S, D]`.
        v: `[B, A, S, D]`.
        bias: added to the scores `[B, A, T, S]`.

    Returns:
        `[B, T, A D]`.
    """
    shape = q.shape
    q, k, v = (x.flatten(0, 1) for x in (q * shape[3] ** -0.5, k, v))
    if q.dtype == torch.bfloat16 and not q.is_cuda and shape[2] == 1:
        scores = torch.bmm(k, q.transpose(1, 2)).transpose(1, 2)
    else:
        scores = torch.bmm(q, k.transpose(1, 2))
    if bias is not None:
        scores = (scores.view(*shape[:3], -1) + bias).flatten(0, 1)
    return torch.bmm(scores.softmax(2), v).view(shape).transpose(1, 2).flatten(2)


def heads_of(x: Tensor, heads: int, parts: int) -> list[Tensor]:
    """Split queries, keys or values `[B, T, parts H]` by head -> `[B, A, T, D]` each."""
    rows = x.view(x.shape[0], x.shape[1], parts, heads, -1)
    return list(rows.permute(2, 0, 3, 1, 4).unbind(0))


def _with_capacity(store: Tensor, tokens: int, spare: int = 0) -> Tensor:
    """Return the store, enlarged if it is too small for this number of tokens."""
    more = tokens - store.shape[4]
    return F.pad(store, (0, 0, 0, max(more, spare))) if more > 0 else store


def _blocks(lengths: list[int], store: Tensor) -> list[tuple[slice, int, Tensor | None]]:
    """Split the rows into runs of consecutive rows of nearly equal lengths.

    Returns:
        For each run, its rows, the longest length, and a bias `[r, 1, 1, S]` that masks the keys
        past the end of each row; the bias is None where all rows are equally long.
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
    """Run prompts through Transformer layers, with the same attention as in training.

    x `[N, H]` -> the last layer at the last token of each prompt `[B, H]`, and the cache.
    """
    layers = list(layers)
    cache = KeyValueCache.empty(len(layers), layers[0].attention.heads, sequences, x)
    for number, layer in enumerate(layers):
        read = sequences.last if number == len(layers) - 1 else None
        attends = partial(cache.read, number, layer.attention, sequences=sequences)
        x = layer(x, sequences, read, attends)
    return x, cache


def read_further(
    layers: Iterable[Any], x: Tensor, sequences: Sequences, positions: Tensor, cache: KeyValueCache
) -> Tensor:
    """Run further tokens of each sequence through the layers. Call `cache.make_room` first.

    x `[N, H]` at `positions` `[N]` -> the last layer at the last token of each sequence `[R, H]`.
    """
    layers = list(layers)
    keys = Sequences(cache.lengths, x.device)
    for number, layer in enumerate(layers):
        read = sequences.last if number == len(layers) - 1 else None
        read_layer = partial(cache.read_further, number, layer.attention)
        more = {"sequences": sequences, "positions": positions, "keys": keys}
        x = layer(x, sequences, read, partial(read_layer, **more))
    return x


def read_token(layers: Iterable[Any], x: Tensor, cache: KeyValueCache) -> Tensor:
    """Run one more token of each sequence through the layers. Call `cache.grow()` first.

    x `[R, H]` -> `[R, H]`.
    """
    sequences = Sequences([1] * len(x), x.device)
    for number, layer in enumerate(layers):
        attends = partial(cache.attend, number, layer.attention, sequences=sequences)
        x = layer(x, sequences, None, attends)
    return x
