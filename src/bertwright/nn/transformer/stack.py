"""Encoders made of embeddings and Transformer layers, over sequences laid end to end.

Letters: B sequences, N tokens in all, R tokens at which the last layer is read, H hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.features import pool
from bertwright.nn.host import send_numbers
from bertwright.nn.products import with_whole_blocks
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.cache import (
    KeyValueCache,
    read_further,
    read_prompts,
    read_token,
)
from bertwright.nn.transformer.embeddings import Embeddings
from bertwright.nn.transformer.layers import TransformerLayer


class Stack(Encoder):
    """Embeddings, L layers, and optionally a pooler over the first token."""

    config: Any
    embeddings: Embeddings
    layers: nn.ModuleList

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """Encode a batch; see `Encoder.forward`.

        With `positions`, the last layer is computed only there and, for the pooler, at first
        tokens.
        """
        sequences = inputs.sequences
        if positions is not None and (top is not None or keep_layers):
            raise ValueError("positions select from the last layer: leave out top and keep_layers")
        if top is not None and not 0 <= top <= len(self.layers):
            raise ValueError(f"top is {top}; this model has layers 0 to {len(self.layers)}")
        x = with_whole_blocks(self.embed(inputs))  # [M, H]: N tokens and padding
        padded = sequences.with_padding(len(x) - sequences.total)
        states = [x]
        for layer in self.layers[: top if positions is None else -1]:
            x = layer(x, padded)
            states.append(x)
        if positions is None:
            states = [state[: sequences.total] for state in states]
            x, layers = states[-1], tuple(states) if keep_layers else ()
            if top is not None or self.pooler is None:
                return Encoded(sequences, x, layers)
            first = pool(x, sequences, self.pooler_reads).to(x.dtype)
            return Encoded(sequences, x, layers, self.pooler(first))
        if self.pooler is None:
            return Encoded(sequences, self._last_layer(x, padded, positions), positions=positions)
        x = self._last_layer(x, padded, torch.cat([sequences.first, positions]))  # [B + R, H]
        first, x = x[: sequences.count], x[sequences.count :]
        return Encoded(sequences, x, (), self.pooler(first), positions)

    def _last_layer(self, x: Tensor, sequences: Sequences, positions: Tensor) -> Tensor:
        """Return the output of the last layer at positions `[R]`: its input x `[M, H]` ->
        `[R, H]`."""
        read: Tensor = self.layers[-1](x, sequences, with_whole_blocks(positions))
        return read[: len(positions)]

    @property
    def pooler_reads(self) -> str:
        """How the input of the pooler is pooled from the last layer, as `nn.features.pool` names
        it."""
        return "cls"

    def embed(self, inputs: Inputs) -> Tensor:
        """Return the input of the first layer, `[N, H]`."""
        self._check(inputs.sequences.longest)
        return self.embeddings(inputs.ids, inputs.sequences.positions, inputs.segments)

    def embed_rows(self, ids: Tensor, segments: Tensor) -> Tensor:
        """Return the input of the first layer for padded sequences `[B, T]`, `[B, T, H]`."""
        return self.embeddings(ids, torch.arange(ids.shape[1], device=ids.device), segments)

    def _check(self, longest: int) -> None:
        if self.spec.max_length is not None and longest > self.spec.max_length:
            raise ValueError(
                f"a sequence has {longest} tokens; this model has positions for "
                f"{self.spec.max_length}: truncate it or encode it in windows"
            )

    def layer(self, number: int) -> TransformerLayer:
        """Return a layer, counted from 0 at the bottom."""
        layer = self.layers[number]
        assert isinstance(layer, TransformerLayer)
        return layer

    def attention_map(self, number: int, x: Tensor) -> Tensor:
        layer = self.layer(number - 1)
        reads = layer.attention_norm(x) if layer.pre_norm else x
        return layer.attention.probabilities(reads)

    def stages(self) -> Sequence[nn.Module]:
        """Return the embeddings and the layers."""
        return [self.embeddings, *self.layers]

    def token_embedding(self) -> nn.Embedding:
        """Return the table of token vectors."""
        return self.embeddings.token

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """Return the operations of the layers, including attention over each sequence.

        The output projection and the feed-forward part of the last layer count for `last_rows`
        tokens only.
        """
        hidden, layers = self.spec.width, len(self.layers)
        seen = hidden * sum(n**2 for n in lengths) * (1 if self.spec.causal else 2)
        attention = sum(lengths) * 3 * hidden**2 + seen
        parts = self.layer(0).feed_forward
        after = hidden**2 + parts.intermediate.weight.numel() + parts.output.weight.numel()
        tokens = (layers - 1) * sum(lengths) + last_rows
        return 6.0 * (layers * attention + tokens * after)


class CachedStack(Stack):
    """A stack that continues sequences over a KV cache."""

    def begin(self, inputs: Inputs) -> tuple[Tensor, KeyValueCache]:
        """Read B sequences; see `GoesOn`. If the inputs have segments and the model distinguishes
        them, the tokens that follow have segment 1."""
        x, cache = read_prompts(self.layers, self.embed(inputs), inputs.sequences)
        cache.segment = int(inputs.segments is not None and self.spec.segments > 1)
        return x, cache

    def advance(self, ids: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        positions = send_numbers(state.lengths, ids.device)
        state.grow()
        self._check(max(state.lengths))
        x = self.embed_further(ids, positions, torch.full_like(ids, state.segment))
        return read_token(self.layers, x, state), state

    def extend(self, inputs: Inputs, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        sequences = inputs.sequences
        before = send_numbers(state.lengths, inputs.ids.device)
        positions = sequences.positions + before.index_select(0, sequences.index)
        state.make_room(sequences.lengths)
        self._check(max(state.lengths))
        segments = inputs.segments
        if segments is None:
            segments = torch.full_like(inputs.ids, state.segment)
        x = self.embed_further(inputs.ids, positions, segments)
        return read_further(self.layers, x, sequences, positions, state), state

    def embed_further(self, ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return the input of the first layer for tokens at any positions, `[N, H]`."""
        return self.embeddings(ids, positions, segments)
