"""Models that generate token by token, as graphs over padded batches that take and return a state.

The outputs `present.X` of a graph are its inputs `past_key_values.X` in the next step (for a GPT,
names and axes are those of Optimum). The caller holds the state: to drop, copy or reorder rows, as
beam search does, it indexes the first axis of every tensor in the state.

| file | takes | gives |
|---|---|---|
| GPT: `model.onnx` | `input_ids [B, T]`, `attention_mask [B, P + T]`, `past_key_values.L.key` and
        `.value [B, A, P, D]` (P is 0 at first) | `logits [B, T, V]`, `present.L.*` |
| translation: `encoder_model.onnx` | `input_ids [B, S]`, `attention_mask [B, S]` |
        `last_hidden_state [B, S, H]`, and `present.L.encoder.*`, with which the decoder begins |
| `decoder_model.onnx` | `input_ids [B, T]`, `encoder_attention_mask [B, S]`, `past_key_values.*` |
        `logits [B, T, V]`, `present.L.decoder.*`; `L.encoder.*` stay |

Rows may have different lengths. The mask is 0 at padding, which may be before or after a prompt,
but only after a source. The positions of a GPT count only the tokens whose mask is 1.

The layers are those that training uses; only attention is replaced, by `attend_rows`.

Letters: B rows, T new tokens, P tokens before them, S longest source, L a layer's number, H hidden,
A heads, D = H / A, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertwright.checkpoint.export.padded import (
    LAST,
    LOGITS,
    PAST,
    PRESENT,
    Graph,
    Rows,
    hide,
    over,
)
from bertwright.errors import ConfigError
from bertwright.models.load import system_of_config
from bertwright.models.transformer.encoder import TransformerDecoder
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.outputs.translation import Translation
from bertwright.nn.transformer.cache import heads_of
from bertwright.nn.transformer.layers import DecoderLayer
from bertwright.nn.transformer.stack import Stack


class CachedGpt(Graph):
    """A GPT, or a left-to-right BERT, that continues from cached keys and values."""

    def __init__(self, encoder: Stack, head: NextToken) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.inputs = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "all")}
        self.inputs |= _caches(encoder.layers, "", "past")
        self.outputs = _given(LOGITS, self.state)

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Return the logits `[B, T, V]`, and the keys and values of all P + T tokens.

        Args:
            ids: the new tokens `[B, T]`.
            mask: `[B, P + T]`, 0 at padding.
            past: the keys and values of the P earlier tokens, layer by layer.
        """
        new, every = _positions(ids, past[0])
        positions = (mask.cumsum(1) - 1).clamp(min=0).index_select(1, new)
        seen = mask.index_select(1, every)[:, None] * (every <= new[:, None])  # [B, T, P + T]
        bias = hide(seen, self.head.weight)[:, None]
        x, rows = self.encoder.embeddings(ids, positions), Rows(positions)
        present: list[Tensor] = []
        for n, layer in enumerate(self.encoder.layers):
            x = layer(x, None, None, over(layer, bias, rows, past[2 * n : 2 * n + 2], present))
        return [self.head.logits(x), *present]


class SourceGraph(Graph):
    """The encoder of a translation model, with the keys and values of its output for each layer of
    the decoder."""

    file = "encoder_model"

    def __init__(self, encoder: Stack, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.inputs = dict.fromkeys(("input_ids", "attention_mask"), ("batch", "source"))
        self.outputs = _given(LAST, _caches(decoder.layers, ".encoder", "source"))

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Return the vectors of the source `[B, S, H]`, and its keys and values for each layer of
        the decoder.

        Args:
            ids: `[B, S]`.
            mask: `[B, S]`, 0 at padding.
            past: not used; an encoder has no state.
        """
        bias = hide(mask, self.encoder.embeddings.token.weight)[:, None, None]
        positions = torch.arange(ids.shape[1], device=ids.device)
        x, rows = self.encoder.embeddings(ids, positions), Rows(positions.expand(ids.shape))
        for layer in self.encoder.layers:
            x = layer(x, None, None, over(layer, bias, rows))
        found = [x]
        for each in _decoder_layers(self.decoder):
            attention = each.cross_attention
            found += heads_of(attention.key_value(x), attention.heads, 2)
        return found


class CachedDecoder(Graph):
    """The decoder of a translation model, which continues from cached keys and values."""

    file = "decoder_model"

    def __init__(self, decoder: TransformerDecoder, embeddings: nn.Module, head: Any) -> None:
        super().__init__()
        self.decoder, self.embeddings, self.head = decoder, embeddings, head
        self.inputs = {
            "input_ids": ("batch", "sequence"),
            "encoder_attention_mask": ("batch", "source"),
            **_caches(decoder.layers, ".decoder", "past"),
        }
        self.outputs = _given(LOGITS, self.state)
        self.inputs |= _caches(decoder.layers, ".encoder", "source")

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Return the logits `[B, T, V]`, and the keys and values of all P + T target tokens.

        Args:
            ids: the new target tokens `[B, T]`.
            mask: the mask of the source `[B, S]`, 0 at padding.
            past: the keys and values of the P earlier target tokens, layer by layer, then those of
                the source.
        """
        new, every = _positions(ids, past[0])
        causal = hide((every <= new[:, None]).long(), self.head.bias)  # [T, P + T]
        bias = hide(mask, self.head.bias)[:, None, None]
        x, rows = self.embeddings(ids, new), Rows(new.expand(ids.shape))
        present: list[Tensor] = []
        layers = _decoder_layers(self.decoder)
        for n, layer in enumerate(layers):
            own, (key, value) = past[2 * n : 2 * n + 2], past[2 * (len(layers) + n) :][:2]
            x = layer.step(x, over(layer, causal, rows, own, present), (key, value), bias)
        return [self.head.logits(x), *present]


def graphs_of(learner: Learner) -> list[Graph]:
    """Return the graphs of a model that generates text."""
    encoder, heads = learner.encoder, dict(learner.objectives.items())
    token, translation = heads.get("next_token"), heads.get("translation")
    if isinstance(encoder, Stack) and encoder.spec.causal and isinstance(token, NextToken):
        return [CachedGpt(encoder, token)]
    if isinstance(encoder, Stack) and isinstance(translation, Translation):
        decoder: Any = translation.decoder
        cached = CachedDecoder(decoder, encoder.embeddings, translation)
        return [SourceGraph(encoder, decoder), cached]
    raise ConfigError(
        "an export is of a BERT, of a GPT or a left-to-right BERT with its head next_token, or of "
        "a Transformer or bert2rnd with its head translation; this model is a "
        f"{system_of_config(encoder.config).row.name} with {', '.join(heads) or 'no head'}"
    )


def _caches(layers: nn.ModuleList, of: str, axis: str) -> dict[str, tuple[str | int, ...]]:
    """Return the inputs for the keys and values of each layer: name -> axes."""
    attention: Any = layers[0].attention
    size = attention.qkv.in_features // attention.heads
    return {
        f"{PAST}{n}{of}.{name}": ("batch", attention.heads, axis, size)
        for n in range(len(layers))
        for name in ("key", "value")
    }


def _given(first: str, state: Iterable[str]) -> dict[str, bool]:
    """Return the outputs of a graph: `first`, and the new state under the names of outputs."""
    return dict.fromkeys([first, *(PRESENT + name.removeprefix(PAST) for name in state)], True)


def _decoder_layers(decoder: TransformerDecoder) -> list[DecoderLayer]:
    return cast("list[DecoderLayer]", list(decoder.layers))


def _positions(ids: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of the new tokens `[T]` and of all tokens `[P + T]`.

    Args:
        ids: the new tokens `[B, T]`.
        key: the keys of the earlier tokens in one layer, `[B, A, P, D]`.
    """
    before, length = key.shape[2], ids.shape[1]
    new = before + torch.arange(length, device=ids.device)
    return new, torch.arange(before + length, device=ids.device)
