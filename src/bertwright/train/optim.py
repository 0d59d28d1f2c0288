"""AdamW (Loshchilov & Hutter 2019) with bias correction, and clipping by the global norm."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def make_adamw(
    module: nn.Module, learning_rate: float, betas: tuple[float, float], eps: float, decay: float
) -> torch.optim.AdamW:
    """torch's fused AdamW; matrices and embeddings decay, biases and norms do not.

    Parameters that do not require gradients are left out.
    """
    learning = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learning if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in learning if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, fused=True)


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale gradients down to a global norm of `most` (0: never); the norm as it was.

    Gradients that are not finite are left as they are: the norm tells.
    """
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if most and most < norm < float("inf"):
        torch._foreach_mul_(gradients, most / norm)
    return norm
