"""Matrix products on a CPU by oneDNN: its layout of constant weights, and its numbers of rows.

A constant weight is stored once in the layout in which oneDNN multiplies. Without this, each
product converts its weight again, which for the few rows of a decoding step takes longer than the
product itself. The product with a converted weight has no gradient: torch's own product is used
where a gradient is needed, under autocast, and after a weight has changed.

oneDNN also compiles a kernel for each number of rows and keeps the last thousand, so rows are
padded to few numbers: by `product` for a constant weight, by `with_whole_blocks` in training.

Letters: R rows, V vocabulary, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 128
"""The number of rows for which the layout of weights is chosen; other numbers work too."""
LARGE = 1024
"""The number of rows from which on padding costs more than the memory of further kernels."""
SMALL = 1 << 19
"""The number of multiplications in float32 below which torch's own product is faster."""


BLOCK = 32
"""Under autocast, batches have a multiple of this number of rows."""


def has_onednn() -> bool:
    """Return whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def has_bfloat16() -> bool:
    """Return whether oneDNN multiplies bfloat16 on this processor (with AVX-512 or AVX-NE-CONVERT).

    Also return True where torch was built without oneDNN.
    """
    return not has_onednn() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def rows_for(rows: int, large: int = LARGE) -> int:
    """Return the number of rows, at least `rows`, to which a product is padded.

    The kernels of one number of rows take 2 MB for BERT. Padding is at most an eighth of the rows,
    and a sixteenth from `large` rows on.
    """
    step, parts = 4, 8 if rows < large else 16
    while 2 * step * parts <= rows:
        step *= 2
    return (rows + step - 1) // step * step


def with_whole_blocks(x: Tensor) -> Tensor:
    """Return the rows of x `[N, ...]` and zeros, `[M, ...]`: M is N rounded up to a multiple of
    `BLOCK` on a CPU under autocast, and N elsewhere.

    Without this, two batches hardly ever have the same number of tokens. On two cores of an Intel
    Xeon with AMX, a minute of pre-training a bert-mini compiled 1,500 kernels, now 200, and seven
    minutes of a left-to-right one ended at 0.6 of the speed and with twice the memory with which
    they began, now at the same.
    """
    more = -len(x) % BLOCK
    if not more or x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return x
    return torch.cat([x, x.new_zeros(more, *x.shape[1:])])


def reorder(weight: Tensor, rows: int) -> Tensor | None:
    """Return a weight `[out, in]` in the layout in which oneDNN multiplies it.

    Args:
        weight: float32 or bfloat16, on any device.
        rows: the number of rows it will most often be multiplied with.

    Returns:
        The reordered weight; None where oneDNN does not multiply it: on other devices than a CPU,
        in bfloat16 on a processor that does not support it, or where torch was built without
        oneDNN.
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
        """Return whether this layout was made from the current values of the weight."""
        return self._made_of == (weight.data_ptr(), weight._version)


class Linear(nn.Linear):
    """A linear layer that multiplies by `product`."""

    def forward(self, input: Tensor) -> Tensor:  # torch's name
        """Apply the layer: `[..., in]` -> `[..., out]`."""
        return product(input, self.weight, self.bias)


def lay_out(module: nn.Module, *weights: Tensor) -> None:
    """Also store weights in oneDNN's layout, for inference on a CPU; this doubles their memory.

    A weight that oneDNN does not multiply is left unchanged.

    Args:
        module: the module whose linear layers are converted.
        weights: other weights `[V, H]` that are passed to `product`.
    """
    every = [part for part in module.modules() if isinstance(part, nn.Linear)]
    linear = [part for part in every if type(part) in (nn.Linear, Linear)]  # not their subclasses
    for part in linear:
        part.__class__ = Linear  # in place, so that hooks and references to the layer remain
    for weight in (*(part.weight for part in linear), *weights):
        laid_out = getattr(weight, "laid_out", None)
        if laid_out and laid_out.is_of(weight):
            continue
        reordered = reorder(weight, ROWS)
        if reordered is not None:  # kept at the weight, since a tied table comes without a module
            weight.laid_out = LaidOut(weight, reordered)  # type: ignore[attr-defined]


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return `x W^T + b`: x `[..., in]`, weight `[out, in]` -> `[..., out]`.

    Use the weight in oneDNN's layout where `lay_out` has made one and it is applicable.
    """
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
