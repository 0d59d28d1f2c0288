"""Initialize the weights of layers as BERT was published."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """As published: matrices from a normal distribution truncated at two deviations, biases 0,
    norms 1.

    Args:
        module: changed in place, with all modules below it.
        std: standard deviation.
        generator: all that is random comes from it; on the CPU.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            truncated_normal(part.weight, std, generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)


def truncated_normal(x: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Fill `x` of any shape from a normal distribution truncated at two deviations; in place."""
    if std == 0:
        return nn.init.zeros_(x)
    return nn.init.trunc_normal_(x, 0.0, std, -2 * std, 2 * std, generator=generator)
