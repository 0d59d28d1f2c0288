"""Dropout (Srivastava et al. 2014) with fast random numbers on a CPU.

One 64-bit draw decides four elements (16 bits each, so the fraction is exact to 1 / 65,536). This
is several times as fast as a Bernoulli draw for each element.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.threads import generator_on


def drop(x: Tensor, p: float) -> Tensor:
    """Return x with a fraction p of its elements set to 0 and the others scaled by 1 / (1 - p)."""
    if x.is_cuda:
        return F.dropout(x, p)
    return _Dropout.apply(x, p)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Module):
    """Dropout in training: a fraction p of the elements is 0, the others are scaled up."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        return drop(x, self.p) if self.training and self.p > 0 else x

    def extra_repr(self) -> str:
        """Return the fraction, for printing."""
        return f"{self.p}"


class SharedDropout(nn.Module):
    """Dropout with one mask for all rows of an owner.

    The owner is a sequence (variational or locked dropout; Gal and Ghahramani 2016), or a token of
    the vocabulary with all its occurrences (embedding dropout).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.dropout = Dropout(p)

    def forward(self, x: Tensor, owners: Tensor, count: int, width: int) -> Tensor:
        """Set the same elements to 0 in every row of an owner.

        Args:
            x: `[N, H]`.
            owners: `[N]`, from 0 to E - 1.
            count: E.
            width: H; 1: whole rows are dropped.

        Returns:
            `[N, H]`.
        """
        if not self.training or self.dropout.p == 0:
            return x
        masks: Tensor = self.dropout(x.new_ones(count, width))
        return x * masks[owners]


def keep_mask(x: Tensor, p: float) -> Tensor:
    """Return a mask to multiply `x` by: 0 for a fraction `p` of its elements, else 1 / (1 - p)."""
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    draws.random_(-(2**63), None, generator=generator_on("cpu"))
    kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= round(p * 65536) - 32768
    return kept.to(x.dtype).mul_(1 / (1 - p))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask = keep_mask(x, p)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient * mask, None
