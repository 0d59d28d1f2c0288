"""A toy system in one file: an LSTM language model, as small as a system can be.

It shows what a new system brings: its configuration, an encoder, the class of its runs, and the one
record that names them, one row of the catalogue (`add_system`). Its instances and pre-training are
those of any language model. Letters: N tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from bertwright.config.language_models import LanguageModelRun
from bertwright.models import load
from bertwright.models.catalogue import MODELS, Row
from bertwright.models.language_models import token_streams
from bertwright.models.system import System
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.init import initialize
from bertwright.nn.layers.recurrent import Lstm
from bertwright.nn.outputs.next_token import next_token
from bertwright.nn.sequences import Inputs

NAME = "toy-lstm"


@dataclass(frozen=True)
class ToyConfig:
    """The architecture."""

    vocab_size: int = 100
    hidden_size: int = 24
    num_hidden_layers: int = 2


def toy_spec(config: ToyConfig) -> EncoderSpec:
    """The specification of an encoder with this configuration."""
    width, depth = config.hidden_size, config.num_hidden_layers
    return EncoderSpec(width, depth, config.vocab_size, causal=True)


class ToyLstm(Encoder):
    """Embeddings, then layers of LSTM from left to right."""

    def __init__(self, config: ToyConfig) -> None:
        width, depth = config.hidden_size, config.num_hidden_layers
        super().__init__(toy_spec(config))
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, width)
        self.layers = nn.ModuleList(Lstm(width, width) for _ in range(depth))

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """See `Encoder`."""
        kept = [self.embeddings(inputs.ids)]
        for layer in self.layers[:top]:
            kept.append(layer(kept[-1], inputs.sequences.lengths))
        return kept

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


PRESETS = {"toy": ToyConfig()}
"""The sizes by name."""


@dataclass(frozen=True)
class ToyRun(LanguageModelRun):
    """A run: what a language model's has, and the sizes of this one."""

    architecture: ToyConfig | None = None


TOY = System(
    row=Row(NAME, ToyConfig, ToyRun, PRESETS, "toy", use='generate --model {run} "A text"'),
    encoder=ToyLstm,
    spec=toy_spec,
    objectives={"next_token": next_token},
    instances=token_streams,
)


def add_system(patch: pytest.MonkeyPatch, system: System) -> None:
    """Enter a system into the catalogue."""
    name, others = system.row.name, load.import_system
    patch.setitem(MODELS, name, system.row)
    patch.setattr(load, "import_system", lambda each: system if each == name else others(each))
