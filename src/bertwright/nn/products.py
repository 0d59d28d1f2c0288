"""Products with weights that stay as they are: on a CPU laid out once as oneDNN multiplies.

Otherwise each product lays them out again, which for the few rows of a decoder's step takes longer
than the product itself. Nothing here has a gradient: with one, under autocast, and once a weight
was changed, products are torch's own.

Letters: R rows, V vocabulary, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 128
"""Rows that weights are laid out for; other numbers work too."""
LARGE = 1024
"""Rows from which they cost more than kernels."""
SMALL = 1 << 19
"""Multiplications in float32 below which torch's own product is the faster one."""


def has_onednn() -> bool:
    """Whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 as oneDNN does (AVX-512, or AVX-NE-CONVERT)."""
    return not has_onednn() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def rows_for(rows: int, large: int = LARGE) -> int:
    """How many rows to multiply in place of so many, as oneDNN makes and keeps kernels for each
    number (of BERT 2 MB): an eighth more at most, of `large` products a sixteenth."""
    step, parts = 4, 8 if rows < large else 16
    while 2 * step * parts <= rows:
        step *= 2
    return (rows + step - 1) // step * step


class LaidOut:
    """A weight as oneDNN multiplies it, and which numbers it was made of."""

    def __init__(self, weight: Tensor) -> None:
        self.tensor: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
        self._made_of = weight.data_ptr(), weight._version

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a weight lays it out itself, if at all."""
        return type(None), ()

    def is_of(self, weight: Tensor) -> bool:
        """Whether the weight was not changed since."""
        return self._made_of == (weight.data_ptr(), weight._version)


class Linear(nn.Linear):
    """A linear layer over `product`."""

    def forward(self, input: Tensor) -> Tensor:  # torch's name
        """`[..., in]` -> `[..., out]`"""
        return product(input, self.weight, self.bias)


def lay_out(module: nn.Module, *weights: Tensor) -> None:
    """Lay out the weights of all linear layers of a module, and other `[V, H]` that `product` is
    given, for inference on a CPU: once more their memory. Elsewhere, and where oneDNN does not
    multiply them, nothing is done."""
    every = [part for part in module.modules() if isinstance(part, nn.Linear)]
    linear = [part for part in every if type(part) in (nn.Linear, Linear)]  # no class of its own
    for part in linear:
        part.__class__ = Linear
    multiplied = {torch.float32} | ({torch.bfloat16} if has_bfloat16() else set())
    for weight in (*(part.weight for part in linear), *weights):
        kept = getattr(weight, "laid_out", None)
        on_cpu = weight.device.type == "cpu" and has_onednn() and weight.dtype in multiplied
        if on_cpu and not (kept and kept.is_of(weight)):
            weight.laid_out = LaidOut(weight)  # type: ignore[attr-defined]


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`x W^T + b`: x `[..., in]`, weight `[out, in]` -> `[..., out]`"""
    kept: LaidOut | None = getattr(weight, "laid_out", None)
    width, rows = x.shape[-1], x.numel() // max(1, x.shape[-1])
    if (
        kept is None
        or rows == 0
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or x.dtype != weight.dtype
        or not kept.is_of(weight)
        or (x.dtype == torch.float32 and rows * weight.numel() < SMALL)
    ):
        return F.linear(x, weight, bias)
    more = rows_for(rows) - rows
    flat = F.pad(x.reshape(rows, width), (0, 0, 0, more)) if more else x.reshape(rows, width)
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(flat, kept.tensor, bias, "none", [], "")
    return y[:rows].view(*x.shape[:-1], -1)
