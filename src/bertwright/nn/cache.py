"""Keys and values of the tokens that were read, kept for those that follow (a KV cache).

A new token of each of R sequences attends to all before it in its own sequence. Sequences of unlike
lengths begin their rows at 0; keys past a sequence's own length are seen by nobody. A prompt itself
is read without padding, as in training.

Letters: R sequences, N tokens of their prompts, L layers, A heads, D = H / A, S room for tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.nn.attention import attend_packed, attend_rows, heads_of, neighbours, row_bias
from bertwright.nn.host import send, send_numbers
from bertwright.nn.sequences import Sequences

SPARE = 64  # tokens that room is made for at once
NEAR, SPARE_ROWS = 1.2, 128
"""Neighbours share products while their keys are at most so many times what is kept, and more."""


class KeyValueCache:
    """Of all layers, for R sequences."""

    def __init__(self, store: Tensor, lengths: list[int], segment: int = 0) -> None:
        self.store = store
        """`[L, 2, R, A, S, D]`: keys, values."""
        self.lengths = lengths
        """R tokens that are kept."""
        self.segment = segment
        """Of the tokens that follow."""
        self._blocks: list[tuple[slice, int, Tensor | None]] = []
        self._rows: tuple[Tensor, Tensor] | None = None

    @classmethod
    def empty(cls, layers: int, heads: int, sequences: Sequences, like: Tensor) -> KeyValueCache:
        """For prompts that are to be read layer by layer; like `[..., H]` in device and type."""
        room, size = sequences.longest + SPARE, like.shape[-1] // heads
        store = like.new_zeros(layers, 2, sequences.count, heads, room, size)
        return cls(store, list(sequences.lengths))

    def read(self, layer: int, qkv: Tensor, sequences: Sequences, causal: bool = True) -> Tensor:
        """Attention of the prompts to themselves, whose keys and values are kept: qkv `[N, 3 H]` ->
        `[N, H]`"""
        heads = self.store.shape[3]
        rows = qkv.view(len(qkv), 3, heads, -1)[:, 1:]
        for number, part in enumerate(torch.split(rows, sequences.lengths)):
            self.store[layer, :, number, :, : len(part)] = part.permute(1, 2, 0, 3)  # [2, A, T, D]
        return attend_packed(qkv, heads, sequences, causal=causal)

    def grow(self) -> None:
        """Make room for a token more of each sequence; before the first layer reads it."""
        self.lengths = [length + 1 for length in self.lengths]
        self.store = _with_room(self.store, max(self.lengths), SPARE)
        self._blocks, self._rows = _blocks(self.lengths, self.store), None
        if min(self.lengths) < max(self.lengths):
            both = [list(range(len(self.lengths))), self.lengths]
            rows = send_numbers(both, self.store.device)
            self._rows = rows[0], rows[1] - 1

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention of a new token of each sequence, whose key and value are kept: qkv `[R, 3 H]`
        -> `[R, H]`"""
        keys, values = self.store[layer]  # [R, A, S, D]
        q, k, v = heads_of(qkv[:, None], keys.shape[1], 3)  # [R, A, 1, D]
        if self._rows is None:
            last = self.lengths[0] - 1
            keys[:, :, last], values[:, :, last] = k[:, :, 0], v[:, :, 0]
        else:
            rows, lasts = self._rows
            keys[rows, :, lasts], values[rows, :, lasts] = k[:, :, 0], v[:, :, 0]
        found = [
            attend_rows(q[rows], keys[rows, :, :longest], values[rows, :, :longest], bias)
            for rows, longest, bias in self._blocks
        ]
        return torch.cat(found)[:, 0]

    def select(self, rows: Tensor) -> KeyValueCache:
        """Of these rows `[r]` alone, in this order; see `decoding/search.py`."""
        kept = rows.tolist()
        if kept == list(range(len(self.lengths))):
            return self
        lengths = [self.lengths[row] for row in kept]
        longest = max(lengths)
        store = self.store[..., : longest + SPARE, :].index_select(2, send(rows, self.store.device))
        return KeyValueCache(store, lengths, self.segment)

    def join(self, other: KeyValueCache) -> KeyValueCache:
        """The rows of both, one after the other."""
        room = max(self.store.shape[4], other.store.shape[4])
        stores = [_with_room(store, room) for store in (self.store, other.store)]
        return KeyValueCache(torch.cat(stores, 2), self.lengths + other.lengths, self.segment)


def _with_room(store: Tensor, tokens: int, spare: int = 0) -> Tensor:
    """The store, longer where it has no room for so many tokens."""
    more = tokens - store.shape[4]
    return F.pad(store, (0, 0, 0, max(more, spare))) if more > 0 else store


def _blocks(lengths: list[int], store: Tensor) -> list[tuple[slice, int, Tensor | None]]:
    """Neighbouring rows of nearly equal lengths, their longest, and `[r, 1, 1, S]`, which hides
    from each row what is behind its own keys (None: they are equally long)."""
    found, ones = [], [1] * len(lengths)
    for rows in neighbours(ones, lengths, sys.maxsize, NEAR, SPARE_ROWS):
        own = lengths[rows]
        bias = row_bias(ones[rows], own, 1)
        found.append(
            (
                rows,
                max(own),
                None if bias is None else send(bias[:, None].to(store.dtype), store.device),
            )
        )
    return found


def read_prompts(
    layers: Iterable[Any], x: Tensor, sequences: Sequences
) -> tuple[Tensor, KeyValueCache]:
    """Prompts through Transformer layers, each attending as it does in training.

    x `[N, H]` -> the last layer at each prompt's last token `[B, H]`, and what is kept.
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


def read_token(layers: Iterable[Any], x: Tensor, cache: KeyValueCache) -> Tensor:
    """A token more of each sequence, for which there is room: x `[R, H]` -> `[R, H]`"""
    sequences = Sequences([1] * len(x), x.device)
    for number, layer in enumerate(layers):
        x = layer(x, sequences, None, partial(cache.attend, number))
    return x
