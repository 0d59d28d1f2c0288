"""How weights start."""

from __future__ import annotations

import torch
from torch import nn


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """Matrices from a normal distribution cut at two deviations, biases 0, norms 1 (as published).

    Args:
        module: changed in place, with all modules below it.
        std: standard deviation.
        generator: the source of chance, on the CPU.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, 0.0, std, -2 * std, 2 * std, generator=generator)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, nn.Linear | nn.LayerNorm) and part.bias is not None:
            nn.init.zeros_(part.bias)
