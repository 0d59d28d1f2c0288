"""The encoder-decoder Transformer (Vaswani et al. 2017, "Attention is all you need").

In the encoder (section 3), a token's embedding times sqrt(H), plus a sinusoid of its position, goes
through L layers of self-attention and feed-forward parts. The decoder reads the target so far
through L layers, which attend to it causally and then to the encoder's vectors. The same
embeddings, of one vocabulary for both languages, turn its vectors into logits (section 3.4).

Two things differ from the paper: norms may stand before each part (`norm = "pre"`), and the decoder
keeps the keys and values of the tokens that it has read, so that a step computes only the new
token.

Letters: B pairs, N source and M target tokens, R rows, t tokens of each, S longest source, H
hidden, A heads, D = H / A, L layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from bertwright.models.transformer.config import TransformerConfig
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.init import initialize
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.cache import KeysValues, KeyValueCache
from bertwright.nn.transformer.embeddings import Embeddings
from bertwright.nn.transformer.layers import DecoderLayer, decoder_layers_of, layers_of, sinusoids
from bertwright.nn.transformer.stack import Stack


class TransformerEmbeddings(Embeddings):
    """The token embedding times sqrt(H), plus a sinusoid of the position."""

    positions: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config.hidden_dropout_prob)
        vectors = torch.empty(config.vocab_size, config.hidden_size)
        self.token = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
            vectors.normal_(0, config.hidden_size**-0.5), freeze=False
        )
        self.scale = math.sqrt(config.hidden_size)
        waves = sinusoids(config.max_position_embeddings, config.hidden_size)
        self.register_buffer("positions", waves, persistent=False)

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        x: Tensor = self.token(ids) * self.scale
        return x + self.positions.index_select(0, positions)


def transformer_spec(config: TransformerConfig) -> EncoderSpec:
    return EncoderSpec(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        max_length=config.max_position_embeddings,
    )


class Transformer(Stack):
    """The encoder over the source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(transformer_spec(config))
        self.config = config
        self.embeddings = TransformerEmbeddings(config)
        self.layers = layers_of(config, pre_norm=config.norm == "pre")

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw embeddings with a standard deviation of 1 / sqrt(H), and matrices as Glorot and
        Bengio (2010) do.
        """
        reset(self, generator)
        weight = self.embeddings.token.weight
        nn.init.normal_(weight, 0, weight.shape[1] ** -0.5, generator=generator)


@dataclass(frozen=True)
class TransformerDecoderState:
    """The state of the decoder for R rows."""

    own: KeyValueCache
    """The keys and values of the tokens that each row has read, equally many for all rows."""
    source: tuple[KeysValues, ...]
    """For each layer, the keys and values of P sources, `[P, A, S, D]`; each source has R / P
    rows.
    """
    bias: Tensor
    """`[P, 1, 1, S]`: 0 at the tokens of a source, -inf at its padding."""
    owners: Tensor
    """`[R]`, on the host: the index of each row's source among the P sources, in rising order."""

    def select(self, rows: Tensor) -> TransformerDecoderState:
        owners = self.owners[rows]
        state = replace(self, own=self.own.select(rows))
        if torch.equal(owners, self.owners):  # other beams of the same sources
            return state
        sources, counts = torch.unique_consecutive(owners, return_counts=True)
        rows_each = int(counts[0])
        if bool((counts != rows_each).any()):  # numbers of rows differ: repeat a source per row
            sources, rows_each = owners, 1
        owners = torch.arange(len(sources)).repeat_interleave(rows_each)
        there = send(sources, self.bias.device)
        source = tuple((k.index_select(0, there), v.index_select(0, there)) for k, v in self.source)
        bias = self.bias.index_select(0, there)
        return replace(state, source=source, bias=bias, owners=owners)


class TransformerDecoder(nn.Module):
    """The decoder, which reads target tokens and attends to an encoded source."""

    def __init__(self, config: TransformerConfig, embeddings: Embeddings) -> None:
        """Build the decoder over the encoder's embeddings."""
        super().__init__()
        self.longest = config.max_position_embeddings
        self.layers = decoder_layers_of(config, pre_norm=config.norm == "pre")
        self._tied = (embeddings,)  # in a tuple: the encoder owns it

    def forward(self, memory: Encoded, target: Inputs, maps: list[Tensor] | None = None) -> Tensor:
        """Read B encoded sources and B targets of M tokens in all. Return the vectors that predict
        the next tokens, `[M, H]`.

        With `maps`, which is allowed for a single pair only, append the attention maps to it.
        """
        sequences = target.sequences
        if sequences.longest > self.longest:
            raise ValueError(f"a target has {sequences.longest} tokens; expected {self.longest}")
        x: Tensor = self._tied[0](target.ids, sequences.positions)
        for layer in self.layers:
            x = layer(x, sequences, memory.last, memory.sequences, maps)
        return x

    def attention_maps(self, memory: Encoded, target: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        maps: list[Tensor] = []
        self(memory, target, maps)
        return maps[::2], maps[1::2]

    def begin(self, memory: Encoded) -> TransformerDecoderState:
        sequences = memory.sequences

        def of_rows(x: Tensor) -> Tensor:
            return sequences.padded(x).transpose(1, 2).contiguous()  # [R, A, S, D]

        layers = cast("list[DecoderLayer]", list(self.layers))
        parts = [layer.cross_attention.keys_values(memory.last).unbind(1) for layer in layers]
        source = tuple((of_rows(k), of_rows(v)) for k, v in parts)
        bias = sequences.bias(memory.last)
        owners = torch.arange(sequences.count)
        keys = source[0][0]
        own = KeyValueCache.of_rows(len(layers), sequences.count, keys)
        return TransformerDecoderState(own, source, bias[:, None, None], owners)

    def advance(
        self, ids: Tensor, state: TransformerDecoderState
    ) -> tuple[Tensor, TransformerDecoderState]:
        own = state.own
        length = own.lengths[0]
        if length == self.longest:
            raise ValueError(f"a target has more than {self.longest} tokens")
        x: Tensor = self._tied[0](ids, torch.full_like(ids, length))
        own.grow()
        sequences = Sequences([1] * len(ids), ids.device)
        for number, source in enumerate(state.source):
            layer = cast(DecoderLayer, self.layers[number])
            attend = partial(own.attend, number, layer.attention, sequences=sequences)
            x = layer.step(x, attend, source, state.bias)
        return x, state

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize all matrices in the same way as those of the encoder."""
        reset(self, generator)


def reset(module: nn.Module, generator: torch.Generator) -> None:
    """Initialize a module in place: matrices uniform by their sizes (Glorot and Bengio 2010),
    biases 0, norms 1.
    """
    initialize(module, 0.02, generator)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
