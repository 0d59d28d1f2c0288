"""The initialization of layers in BERT (Devlin et al. 2019; google-research/bert)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """Initialize matrices from a truncated normal distribution, biases to 0 and norms to 1.

    Args:
        module: initialized in place, with all modules below it.
        std: the standard deviation; the distribution is truncated at two of it.
        generator: the source of all random numbers, on the CPU.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            truncated_normal(part.weight, std, generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)


def truncated_normal(x: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Fill `x` in place from a normal distribution truncated at two standard deviations."""
    if std == 0:
        return nn.init.zeros_(x)
    return nn.init.trunc_normal_(x, 0.0, std, -2 * std, 2 * std, generator=generator)
