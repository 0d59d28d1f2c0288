"""A toy system in one file: an LSTM language model, as small as a system can be.

It shows what a new system brings: an encoder, an objective, its instances, a format, the class of
its runs, and one entry in each catalogue (`add_toy`). Letters: N tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertwright.arrays import Int64s
from bertwright.checkpoint.format import Format
from bertwright.checkpoint.formats import FORMATS
from bertwright.config.run import RunConfig
from bertwright.config.systems import RUN_CONFIGS
from bertwright.data.batch import InputArrays, collate
from bertwright.data.randomness import make_key, permutation
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.models.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.init import initialize
from bertwright.nn.output import vocabulary_loss
from bertwright.nn.recurrent import Lstm
from bertwright.nn.sequences import Inputs
from bertwright.objectives.objective import Loss, Objective
from bertwright.recipes.phases import Phase
from bertwright.recipes.systems import SYSTEMS, System

NAME = "toy-lstm"


@dataclass(frozen=True)
class ToyConfig:
    """The architecture."""

    vocab_size: int = 100
    hidden_size: int = 24
    num_hidden_layers: int = 2


class ToyLstm(Encoder):
    """Embeddings, then layers of LSTM from left to right."""

    def __init__(self, config: ToyConfig) -> None:
        width, depth = config.hidden_size, config.num_hidden_layers
        super().__init__(EncoderSpec(width, depth, config.vocab_size, causal=True))
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, width)
        self.layers = nn.ModuleList(Lstm(width, width) for _ in range(depth))

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """See `Encoder`."""
        x = self.embeddings(inputs.ids)
        kept = [x]
        for layer in self.layers[:top]:
            x = layer(x, inputs.sequences.lengths)
            kept.append(x)
        return Encoded(inputs.sequences, x, tuple(kept) if keep_layers else ())

    def stages(self) -> Sequence[nn.Module]:
        """See `Encoder`."""
        return [self.embeddings, *self.layers]

    def token_embedding(self) -> nn.Embedding:
        """See `Encoder`."""
        return self.embeddings

    def flops(self, lengths: Sequence[int], last_rows: int) -> float:
        """See `Encoder`: eight products a layer and token."""
        return 6.0 * 8 * self.spec.width**2 * self.spec.depth * sum(lengths)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """See `Encoder`."""
        initialize(self, 0.1, generator)
        for parameter in self.layers.parameters():
            nn.init.uniform_(parameter, -0.2, 0.2, generator=generator)


@dataclass(frozen=True)
class NextTokenBatch:
    """Sequences, and which of their tokens are predicted."""

    inputs: InputArrays
    positions: Int64s
    """[K]: the positions in N that predict."""
    labels: Int64s
    """[K]: the token after each."""

    @property
    def num_tokens(self) -> int:
        """N."""
        return len(self.inputs.ids)


class NextToken(Objective[Any]):
    """Predict each token from those before it, through the token embeddings."""

    title = "next token"

    def __init__(self, config: ToyConfig, encoder: Encoder) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self._tied = (encoder.token_embedding(),)

    def count(self, batch: Any) -> int:
        """K."""
        return len(batch.labels)

    def positions(self, batch: Any) -> Tensor:
        """All but each sequence's last."""
        positions: Tensor = batch.positions
        return positions

    def forward(self, encoded: Encoded, batch: Any) -> Loss:
        """Cross-entropy summed over the predicted tokens."""
        table = self._tied[0]
        assert table is not None
        x = encoded.at(batch.positions).contiguous()
        loss = vocabulary_loss(x, table.weight, self.bias, batch.labels)
        return Loss(loss.total, len(batch.labels), loss.correct)


class Streams:
    """The documents of a split in windows of at most `longest` tokens."""

    def __init__(self, shards: Shards, split: Split, share: float, longest: int, seed: int) -> None:
        self.shards, self.longest, self.seed = shards, longest, seed
        bounds = shards.sentence_tokens[shards.document_sentences]
        self._windows = np.array(
            [
                (start, min(start + longest, bounds[document + 1]))
                for document in split_documents(shards, split, share)
                for start in range(int(bounds[document]), int(bounds[document + 1]), longest)
            ]
        )

    def _order(self, epoch: int) -> Int64s:
        return permutation(make_key("order", self.seed, epoch), len(self._windows))

    def lengths(self, epoch: int) -> Int64s:
        """See `Instances`."""
        windows = self._windows[self._order(epoch)]
        lengths: Int64s = windows[:, 1] - windows[:, 0]
        return lengths

    def batch(self, epoch: int, positions: Int64s) -> NextTokenBatch:
        """See `Instances`."""
        windows = self._windows[self._order(epoch)][positions]
        inputs, _ = collate([self.shards.tokens(start, stop) for start, stop in windows])
        ends = np.cumsum(inputs.lengths) - 1
        read = np.setdiff1d(np.arange(len(inputs.ids)), ends)
        return NextTokenBatch(inputs, read, inputs.ids[read + 1])


@dataclass(frozen=True)
class ToyRun(RunConfig):
    """A run: what `RunConfig` has, and the length of its windows."""

    presets: ClassVar[Mapping[str, ToyConfig]] = {"toy": ToyConfig()}
    default_model: ClassVar[str] = "toy"

    window: int = 20
    """Tokens of a window."""

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence."""
        return self.window


def _streams(run: ToyRun, shards: Shards, split: Split, seed: int) -> Streams:
    return Streams(shards, split, run.validation.share, run.window, seed)


TOY = System(
    name=NAME,
    paper="none",
    model_config=lambda run, vocab_size: replace(ToyConfig(), vocab_size=vocab_size),
    objectives=lambda run: ["next_token"],
    phases=lambda run, shards: [Phase(_streams(run, shards, "train", run.seed), run.batch.tokens)],
    held_out=lambda run, shards, split: _streams(run, shards, split, 0),
    continued=lambda run, found, folder: found,
)
FORMAT = Format(NAME, ToyConfig, ToyLstm, {"next_token": NextToken})


def add_toy(patch: pytest.MonkeyPatch) -> None:
    """Enter it into the catalogues."""
    patch.setitem(SYSTEMS, NAME, TOY)
    patch.setitem(FORMATS, NAME, FORMAT)
    patch.setitem(RUN_CONFIGS, NAME, ToyRun)
