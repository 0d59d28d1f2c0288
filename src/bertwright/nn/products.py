"""Products with constant weights: on a CPU these are laid out once, as oneDNN multiplies them.

Otherwise each product lays its weight out again, which for the few rows of a decoding step takes
longer than the product itself. Nothing here has a gradient: where one is needed, under autocast,
and after a weight has changed, torch's own product is used.

Letters: R rows, V vocabulary, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 128
"""The number of rows that weights are laid out for; other numbers work too."""
LARGE = 1024
"""From this number of rows on, padding rows cost more than the memory of further kernels."""
SMALL = 1 << 19
"""Below this number of multiplications in float32, torch's own product is faster."""


def has_onednn() -> bool:
    """Whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 as oneDNN does (AVX-512, or AVX-NE-CONVERT)."""
    return not has_onednn() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def rows_for(rows: int, large: int = LARGE) -> int:
    """Return a number of rows, not below `rows`, to pad a product to.

    oneDNN makes and keeps kernels for every number of rows (2 MB of them for BERT), so few numbers
    are used. Padding is at most an eighth, and a sixteenth from `large` rows on.
    """
    step, parts = 4, 8 if rows < large else 16
    while 2 * step * parts <= rows:
        step *= 2
    return (rows + step - 1) // step * step


def reorder(weight: Tensor, rows: int) -> Tensor | None:
    """Return a weight `[out, in]` in the layout in which oneDNN multiplies it.

    Args:
        weight: float32 or bfloat16, on any device.
        rows: the number of rows it will most often be multiplied with.

    Returns:
        None where oneDNN does not multiply it: on other devices than a CPU, in bfloat16 on a
        processor without it, or where torch was built without oneDNN.
    """
    multiplied = (torch.float32, torch.bfloat16) if has_bfloat16() else (torch.float32,)
    if not has_onednn() or weight.device.type != "cpu" or weight.dtype not in multiplied:
        return None
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)
    return reordered


class LaidOut:
    """A weight in oneDNN's layout, and the version of the weight that it was made from."""

    def __init__(self, weight: Tensor, reordered: Tensor) -> None:
        self.tensor = reordered
        self._made_of = weight.data_ptr(), weight._version

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as None: the layout belongs to one weight of one process."""
        return type(None), ()

    def is_of(self, weight: Tensor) -> bool:
        """Whether this was made from the weight as it is now."""
        return self._made_of == (weight.data_ptr(), weight._version)


class Linear(nn.Linear):
    """A linear layer that multiplies by `product`."""

    def forward(self, input: Tensor) -> Tensor:  # torch's name
        """`[..., in]` -> `[..., out]`"""
        return product(input, self.weight, self.bias)


def lay_out(module: nn.Module, *weights: Tensor) -> None:
    """Lay out weights once for inference on a CPU; this takes as much memory again.

    Where oneDNN does not multiply a weight, nothing changes.

    Args:
        module: all linear layers of it are laid out.
        weights: others `[V, H]` that are passed to `product`.
    """
    every = [part for part in module.modules() if isinstance(part, nn.Linear)]
    linear = [part for part in every if type(part) in (nn.Linear, Linear)]  # not their subclasses
    for part in linear:
        part.__class__ = Linear
    for weight in (*(part.weight for part in linear), *weights):
        laid_out = getattr(weight, "laid_out", None)
        if laid_out and laid_out.is_of(weight):
            continue
        reordered = reorder(weight, ROWS)
        if reordered is not None:
            weight.laid_out = LaidOut(weight, reordered)  # type: ignore[attr-defined]


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return `x W^T + b`: x `[..., in]`, weight `[out, in]` -> `[..., out]`."""
    laid_out: LaidOut | None = getattr(weight, "laid_out", None)
    width, rows = x.shape[-1], x.numel() // max(1, x.shape[-1])
    if (
        laid_out is None
        or rows == 0
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or x.dtype != weight.dtype
        or not laid_out.is_of(weight)
        or (x.dtype == torch.float32 and rows * weight.numel() < SMALL)
    ):
        return F.linear(x, weight, bias)
    more = rows_for(rows) - rows
    flat = F.pad(x.reshape(rows, width), (0, 0, 0, more)) if more else x.reshape(rows, width)
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(
        flat, laid_out.tensor, bias, "none", [], ""
    )
    return y[:rows].view(*x.shape[:-1], -1)
