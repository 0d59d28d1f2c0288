"""An encoder that is no Transformer: sums of the tokens so far."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from bertwright.inference.encode import ModelRunner
from bertwright.inference.model import Model, load
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs


class Sums(Encoder):
    """Word vectors, and in each layer above them their running sums, repeated to its width."""

    def __init__(self, depth: int) -> None:
        super().__init__(EncoderSpec(8, depth, 41))
        self.token = nn.Embedding(41, 8)

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        layers = [self.token(inputs.ids)]
        for number in range(self.spec.depth if top is None else top):
            parts = layers[-1].split(list(inputs.sequences.lengths))
            sums = torch.cat([part.cumsum(0) for part in parts])
            layers.append(sums.repeat(1, self.spec.widths[number + 1] // sums.shape[1]))
        return Encoded(inputs.sequences, layers[-1], tuple(layers) if keep_layers else ())


def model_of(folder: Path, depth: int, widths: tuple[int, ...] | None = None) -> Model:
    bert = load(folder, device="cpu")
    torch.manual_seed(0)
    sums = Sums(depth)
    sums.spec = replace(sums.spec, own_widths=widths or sums.spec.own_widths)
    learner = Learner(sums, {}).eval().requires_grad_(False)
    runner = ModelRunner(learner, bert.tokenizer, torch.device("cpu"), 64, "sums")
    return Model(runner, bert.config, bert.report, {})
