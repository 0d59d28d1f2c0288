"""Models that write token by token, as graphs over rectangles whose state goes in and comes out.

What a graph gives as `present.X` is fed to it as `past_key_values.X` with the next token (names and
axes of a GPT as Optimum has them). The state is the caller's: to drop, copy or reorder rows, as
beams, is to index the first axis of all of it.

| file | takes | gives |
|---|---|---|
| GPT: `model.onnx` | `input_ids [B, T]`, `attention_mask [B, P + T]`, `past_key_values.L.key` and
        `.value [B, A, P, D]` (P is 0 at first) | `logits [B, T, V]`, `present.L.*` |
| translation: `encoder_model.onnx` | `input_ids [B, S]`, `attention_mask [B, S]` |
        `last_hidden_state [B, S, H]`, and what the decoder begins with, `present.*` |
| `decoder_model.onnx` | `input_ids [B, T]`, `encoder_attention_mask [B, S]`, `past_key_values.*` |
        `logits [B, T, V]`, `present.*` of what changes: a Transformer's `L.encoder.*` stay |

Rows of unlike lengths: the mask is 0 at padding, on either side of a prompt (a source: behind it);
positions count what the mask shows. A seq2seq's decoder takes one token a row, T = 1.

Layers compute as they do everywhere; attention alone is written for rectangles (`padded.attend`).

Letters: B rows, T new tokens, P tokens before them, S longest source, L a layer's number, H hidden,
A heads, D = H / A, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertwright.checkpoint.export.padded import PaddedLstm, attend, heads_of, hide
from bertwright.checkpoint.formats import format_of
from bertwright.errors import ConfigError
from bertwright.models.bert import Bert
from bertwright.models.gpt import Gpt
from bertwright.models.seq2seq import DecoderState, Seq2Seq, Seq2SeqDecoder
from bertwright.models.transformer import Transformer, TransformerDecoder
from bertwright.nn.transformer import DecoderLayer
from bertwright.objectives.next_token import NextToken
from bertwright.objectives.objective import Learner
from bertwright.objectives.translation import Translation

PAST, PRESENT = "past_key_values.", "present."


class Graph(nn.Module):
    """A part of a model: (ids, mask, state) -> what `outputs` names."""

    file: str
    """Its name, as Optimum has it."""
    mask: str
    """What the mask's input is called."""
    state: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    """What goes in by name: axes (`batch`, `past`, `source`, or empty where fixed), sizes."""
    outputs: list[str]
    step: bool = False
    """Whether T is 1."""


class CachedGpt(Graph):
    """A GPT that goes on from keys and values."""

    file, mask = "model", "attention_mask"

    def __init__(self, encoder: Gpt, head: NextToken) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.state = _caches(encoder.layers, "", "past")
        self.outputs = ["logits", *(PRESENT + name for name in self.state)]

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """`[B, T]`, `[B, P + T]`, keys and values layer by layer"""
        new, every = _positions(ids, past[0])
        positions = (mask.cumsum(1) - 1).clamp(min=0).index_select(1, new)
        seen = mask.index_select(1, every)[:, None] * (every <= new[:, None])  # [B, T, P + T]
        bias = hide(seen, self.head.weight)[:, None]
        x = self.encoder.embeddings(ids, positions)
        present: list[Tensor] = []
        for layer, key, value in zip(self.encoder.layers, past[::2], past[1::2], strict=True):
            x = layer(x, None, None, _over(layer, key, value, bias, present))
        return [self.head.logits(x), *present]


class TransformerSource(Graph):
    """The encoder, a Transformer or a BERT; its keys and values for each layer of the decoder."""

    file, mask = "encoder_model", "attention_mask"

    def __init__(self, encoder: Transformer | Bert, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.state = {}
        given = _caches(decoder.layers, ".encoder", "source")
        self.outputs = ["last_hidden_state", *(PRESENT + name for name in given)]

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Two of `[B, S]`"""
        bias = hide(mask, self.encoder.embeddings.token.weight)[:, None, None]
        x = self.encoder.embeddings(ids, torch.arange(ids.shape[1], device=ids.device))
        for layer in self.encoder.layers:
            x = layer(x, None, None, _over(layer, None, None, bias, []))
        found = [x]
        for each in cast("list[DecoderLayer]", list(self.decoder.layers)):
            attention = each.cross_attention
            found += heads_of(attention.key_value(x), attention.heads, 2)
        return found


class CachedTransformer(Graph):
    """The decoder of a Transformer."""

    file, mask = "decoder_model", "encoder_attention_mask"

    def __init__(self, decoder: TransformerDecoder, embeddings: nn.Module, head: Any) -> None:
        super().__init__()
        self.decoder, self.embeddings, self.head = decoder, embeddings, head
        own = _caches(decoder.layers, ".decoder", "past")
        self.state = own | _caches(decoder.layers, ".encoder", "source")
        self.outputs = ["logits", *(PRESENT + name for name in own)]

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """`[B, T]`, `[B, S]`; keys and values of targets, then of sources, layer by layer"""
        new, every = _positions(ids, past[0])
        causal = hide((every <= new[:, None]).long(), self.head.bias)  # [T, P + T]
        bias = hide(mask, self.head.bias)[:, None, None]
        x = self.embeddings(ids, new)
        present: list[Tensor] = []
        layers = cast("list[DecoderLayer]", list(self.decoder.layers))
        for n, layer in enumerate(layers):
            own, source = past[2 * n : 2 * n + 2], past[2 * (len(layers) + n) :][:2]
            x = layer.parts(
                x,
                _own(layer, own, causal, present),
                _across(layer, source, bias),
            )
        return [self.head.logits(x), *present]


class LstmSource(Graph):
    """The encoder of a seq2seq, and what its decoder begins with."""

    file, mask = "encoder_model", "attention_mask"

    def __init__(self, encoder: Seq2Seq, decoder: Seq2SeqDecoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.layers = nn.ModuleList(PaddedLstm(layer) for layer in encoder.layers)  # type: ignore[arg-type]
        self.state = {}
        self.outputs = ["last_hidden_state", *(PRESENT + n for n in lstm_state(decoder))]

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Two of `[B, S]`"""
        x = self.encoder.embeddings(ids)
        for layer in self.layers:
            x = layer(x, mask)
        last = (mask.sum(1) - 1)[:, None, None].expand(-1, 1, x.shape[2])
        half = x.shape[2] // 2
        ends = torch.cat([x.gather(1, last)[:, 0, :half], x[:, 0, half:]], 1)
        first = self.decoder.initial(ends).tanh().chunk(2 * len(self.decoder.cells), 1)
        fed = torch.zeros_like(first[0][:, :1]).expand(-1, self.decoder.width)
        attention = getattr(self.decoder, "attention", None)
        return [x, *first, fed, *([] if attention is None else [x, attention.keys(x)])]


class SteppingLstm(Graph):
    """The decoder of a seq2seq, a token of each row at a time."""

    file, mask, step = "decoder_model", "encoder_attention_mask", True

    def __init__(self, decoder: Seq2SeqDecoder, head: Translation) -> None:
        super().__init__()
        self.decoder, self.head = decoder, head
        self.state = lstm_state(decoder)
        self.changing = 2 * len(decoder.cells) + 1
        self.outputs = ["logits", *(PRESENT + n for n in list(self.state)[: self.changing])]

    def forward(self, ids: Tensor, mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        """`[B, 1]`, `[B, S]`, the state"""
        own, source = past[: self.changing - 1], past[self.changing :]
        bias = hide(mask, self.head.bias)
        state = DecoderState(
            tuple(zip(own[::2], own[1::2], strict=True)),
            past[self.changing - 1],
            (*source, bias) if source else (),
            ids[:, 0],
        )
        x, state = self.decoder.advance(ids[:, 0], state)
        cells = [each for cell in state.states for each in cell]
        # a mask that is not read would be no input of the graph
        logits = self.head.logits(x) + (0 if source else 0.0 * bias[:, :1])
        return [logits[:, None], *cells, state.fed]


def lstm_state(decoder: Seq2SeqDecoder) -> dict[str, Any]:
    """What a seq2seq's decoder keeps; the source last."""
    size = decoder.cells[0].hidden_size
    found: dict[str, Any] = {
        f"{n}.{name}": (("batch", ""), (0, size))
        for n in range(len(decoder.cells))
        for name in ("hidden", "cell")
    }
    found["fed"] = ("batch", ""), (0, decoder.width)
    if hasattr(decoder, "attention"):
        for name in ("vectors", "keys"):
            found[f"encoder.{name}"] = ("batch", "source", ""), (0, 0, size)
    return found


def graphs_of(learner: Learner) -> list[Graph]:
    """The graphs of a model that writes.

    Raises:
        ConfigError: it keeps no state that goes in and out of a graph.
    """
    encoder, heads = learner.encoder, dict(learner.objectives.items())
    token, translation = heads.get("next_token"), heads.get("translation")
    if isinstance(encoder, Gpt) and isinstance(token, NextToken):
        return [CachedGpt(encoder, token)]
    if isinstance(translation, Translation):
        decoder: Any = translation.decoder
        if isinstance(encoder, (Transformer, Bert)):
            cached = CachedTransformer(decoder, encoder.embeddings, translation)
            return [TransformerSource(encoder, decoder), cached]
        if isinstance(encoder, Seq2Seq):
            return [LstmSource(encoder, decoder), SteppingLstm(decoder, translation)]
    raise ConfigError(
        "an export is of a BERT, of a GPT with its head next_token, or of a Transformer, bert2rnd "
        "or seq2seq with its head translation; this model is a "
        f"{format_of(encoder.config).model_type} with {', '.join(heads) or 'no head'}"
    )


def _caches(layers: nn.ModuleList, of: str, axis: str) -> dict[str, Any]:
    """Keys and values of each layer."""
    attention: Any = layers[0].attention
    size = attention.qkv.in_features // attention.heads
    shape = (0, attention.heads, 0, size)
    return {
        f"{n}{of}.{name}": (("batch", "", axis, ""), shape)
        for n in range(len(layers))
        for name in ("key", "value")
    }


def _positions(ids: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """ids `[B, T]`, a key `[B, A, P, D]` -> positions of the new tokens `[T]`, of all `[P + T]`"""
    before, length = key.shape[2], ids.shape[1]
    new = before + torch.arange(length, device=ids.device)
    return new, torch.arange(before + length, device=ids.device)


def _over(
    layer: Any, key: Tensor | None, value: Tensor | None, bias: Tensor, present: list[Tensor]
) -> Callable[[Tensor], Tensor]:
    """Attention of new tokens to themselves and to those before, whose keys are put with them."""

    def attention(qkv: Tensor) -> Tensor:
        q, k, v = heads_of(qkv, layer.attention.heads, 3)
        if key is not None and value is not None:
            k, v = torch.cat([key, k], 2), torch.cat([value, v], 2)
        present.extend([k, v])
        return attend(q, k, v, bias)

    return attention


def _own(
    layer: DecoderLayer, past: list[Tensor], bias: Tensor, present: list[Tensor]
) -> Callable[[Tensor], Tensor]:
    def attention(y: Tensor) -> Tensor:
        over = _over(layer, past[0], past[1], bias, present)
        output: Tensor = layer.attention.output(over(layer.attention.qkv(y)))
        return output

    return attention


def _across(layer: DecoderLayer, source: list[Tensor], bias: Tensor) -> Callable[[Tensor], Tensor]:
    def attention(y: Tensor) -> Tensor:
        cross = layer.cross_attention
        (q,) = heads_of(cross.query(y), cross.heads, 1)
        output: Tensor = cross.output(attend(q, source[0], source[1], bias))
        return output

    return attention
