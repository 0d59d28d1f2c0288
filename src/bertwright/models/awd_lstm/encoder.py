"""AWD-LSTM: a language model of LSTM layers with regularization at every level (Merity, Keskar and
Socher 2018, "Regularizing and optimizing LSTM language models"). It is the encoder of ULMFiT
(Howard and Ruder 2018).

The architecture (sections 3 and 4) is L layers of LSTM over token embeddings. The output weights
are tied to the embeddings, so the last layer is as wide as they are and only the layers between are
wider. In training

- whole rows of the embeddings are dropped, so a dropped token is missing wherever it occurs;
- the input, what passes from layer to layer, and the output have variational dropout, with one mask
  per sequence;
- the recurrent weights have DropConnect, with one mask per micro-batch.

The penalties AR and TAR (section 4.5) are in `nn/outputs/next_token.py`.

Three things differ from the paper: the state starts at 0 in every window instead of being carried
on (a run's `burn_in` gives predictions their context), windows have the run's length instead of a
random one, and the optimizer is AdamW.

Letters: N tokens in all, B sequences, H width of the embeddings, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertwright.models.awd_lstm.config import AwdLstmConfig
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.layers.dropout import SharedDropout
from bertwright.nn.layers.recurrent import Lstm, LstmState
from bertwright.nn.sequences import Inputs


def awd_lstm_spec(config: AwdLstmConfig) -> EncoderSpec:
    return EncoderSpec(
        width=config.widths[-1],
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        causal=True,
        averages_end=False,
        own_widths=config.widths,
    )


class AwdLstmState(NamedTuple):
    """The states of the layers for B sequences; its methods are those of `decoding/search.py`."""

    layers: tuple[LstmState, ...]

    def select(self, rows: Tensor) -> AwdLstmState:
        rows = send(rows, self.layers[0].h.device)
        return AwdLstmState(tuple(LstmState(h[rows], c[rows]) for h, c in self.layers))

    def join(self, other: AwdLstmState) -> AwdLstmState:
        both = zip(self.layers, other.layers, strict=True)
        return AwdLstmState(
            tuple(LstmState(torch.cat([a.h, b.h]), torch.cat([a.c, b.c])) for a, b in both)
        )


class AwdLstm(Encoder):
    """LSTM layers with DropConnect over tied embeddings."""

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__(awd_lstm_spec(config))
        self.config = config
        scale = config.dropout_scale
        self.embeddings = nn.Embedding(config.vocab_size, config.widths[0])
        self.embedding_dropout = SharedDropout(scale * config.embedding_dropout)
        self.input_dropout = SharedDropout(scale * config.input_dropout)
        weight_dropout = scale * config.weight_dropout
        self.layers = nn.ModuleList(
            Lstm(below, width, weight_dropout=weight_dropout)
            for below, width in pairwise(config.widths)
        )
        between = [config.hidden_dropout] * (config.num_hidden_layers - 1)
        self.dropouts = nn.ModuleList(
            SharedDropout(scale * p) for p in (*between, config.output_dropout)
        )

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        ids, sequences = inputs.ids, inputs.sequences

        def dropped(dropout: nn.Module, x: Tensor) -> Any:
            return dropout(x, sequences.index, sequences.count, x.shape[1])

        x = self.embedding_dropout(self.embeddings(ids), ids, self.config.vocab_size, 1)  # [N, H]
        layers = [dropped(self.input_dropout, x)]
        for layer, dropout in zip(self.layers[:top], self.dropouts, strict=False):
            layers.append(dropped(dropout, layer(layers[-1], sequences.lengths)))
        return layers

    def begin(self, inputs: Inputs) -> tuple[Tensor, AwdLstmState]:
        """Read sequences without dropout; see `GoesOn`."""
        return self._read(inputs.ids, inputs.sequences.lengths, [None] * len(self.layers))

    def advance(self, ids: Tensor, state: AwdLstmState) -> tuple[Tensor, AwdLstmState]:
        return self._read(ids, [1] * len(ids), state.layers)

    def extend(self, inputs: Inputs, state: AwdLstmState) -> tuple[Tensor, AwdLstmState]:
        return self._read(inputs.ids, inputs.sequences.lengths, state.layers)

    def _read(
        self, ids: Tensor, counts: Sequence[int], before: Sequence[LstmState | None]
    ) -> tuple[Tensor, AwdLstmState]:
        """Read tokens `[N]` of B sequences. Return the last layer at the last token of each
        `[B, H]`, and the states of all layers there.
        """
        x = self.embeddings(ids)
        after = []
        for layer, state in zip(self.layers, before, strict=True):
            assert isinstance(layer, Lstm)
            x, state_after = layer.go_on(x, counts, state)
            after.append(state_after)
        return after[-1].h, AwdLstmState(tuple(after))

    def stages(self) -> Sequence[nn.Module]:
        return [self.embeddings, *self.layers]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw embeddings uniformly from -0.1 to 0.1, and the weights of an LSTM of width W from -1
        / sqrt(W) to 1 / sqrt(W).
        """
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1, generator=generator)
        for layer, width in zip(self.layers, self.spec.widths[1:], strict=True):
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -(width**-0.5), width**-0.5, generator=generator)
