"""Dropout (Srivastava et al. 2014); on a CPU, `cpu_dropout.py` draws its random numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.layers.cpu_dropout import CpuDropout


def drop(x: Tensor, p: float) -> Tensor:
    """Return x with a fraction p of its elements set to 0 and the others scaled by 1 / (1 - p)."""
    if x.is_cuda:
        return F.dropout(x, p)
    return CpuDropout.apply(x, p)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Module):
    """Dropout in training: a fraction p of the elements is set to 0 and the others are scaled by
    1 / (1 - p)."""

    __call__: Callable[..., Tensor]

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return x after dropout in training, and x itself otherwise; x has any shape."""
        return drop(x, self.p) if self.training and self.p > 0 else x

    def extra_repr(self) -> str:
        """Return the fraction p, which is shown when the module is printed."""
        return f"{self.p}"


class SharedDropout(nn.Module):
    """Dropout with one mask for all rows of an owner.

    The owner of a row is its sequence (variational or locked dropout; Gal and Ghahramani 2016), or
    its token of the vocabulary, whose occurrences then share a mask (embedding dropout).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.dropout = Dropout(p)

    def forward(self, x: Tensor, owners: Tensor, count: int, width: int) -> Tensor:
        """Set the same elements to 0 in every row of an owner.

        Args:
            x: `[N, H]`.
            owners: `[N]`, the owner of each row, from 0 to E - 1.
            count: E, the number of owners.
            width: H, to drop single elements, or 1, to drop whole rows.

        Returns:
            `[N, H]`.
        """
        if not self.training or self.dropout.p == 0:
            return x
        return x * self.dropout(x.new_ones(count, width))[owners]
