"""A Dense module of random weights."""

from __future__ import annotations

from pathlib import Path

import torch

from bertwright.checkpoint.sentence_transformers.dense import (
    Dense,
    DenseLayer,
    write_layer,
)

TANH = "torch.nn.modules.activation.Tanh"


def random_layer(
    folder: Path, given: int, made: int, bias: bool = True, activation: str = TANH
) -> Dense:
    """A layer in a folder of its own."""
    folder.mkdir()
    chance = torch.Generator().manual_seed(made)
    weight = torch.randn(made, given, generator=chance)
    dense = Dense(given, made, bias, activation, folder)
    told = torch.randn(made, generator=chance) if bias else None
    write_layer(folder, DenseLayer(dense, weight, told))
    return dense
