"""Attention by PyTorch's variable-length flash kernel: one call over a whole batch on CUDA."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from torch import Tensor

from bertwright.nn.sequences import Sequences

FLASH_WIDTH = 256
"""The widest head that the kernel takes."""


def takes_flash(q: Tensor) -> bool:
    """Return whether the kernel takes queries `[N, A, D]`.

    It takes fp16 and bf16 on a GPU of compute capability 8.0 and up, with D a multiple of 8 up to
    256.
    """
    if not q.is_cuda or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    return q.shape[2] % 8 == 0 and q.shape[2] <= FLASH_WIDTH and _has_flash(q.device)


@cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0) and torch.version.cuda is not None


@cache
def has_windows() -> bool:
    """Return whether `varlen_attn` takes a window; older versions of torch do not."""
    from torch.nn.attention.varlen import varlen_attn

    return "window_size" in inspect.signature(varlen_attn).parameters


def attend_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    reach: int | None,
) -> Tensor:
    """Compute attention: q `[N, A, D]`, k and v `[M, A, D]` -> `[N, A D]`; see `attend`."""
    from torch.nn.attention.varlen import varlen_attn

    options: dict[str, Any] = {}
    if reach is not None:
        options = {"window_size": (reach, reach)}
    elif causal:  # older versions of torch have a flag in place of the window
        options = {"window_size": (-1, 0)} if has_windows() else {"is_causal": True}
    context = varlen_attn(
        q,
        k,
        v,
        queries.cu_seqlens,
        keys.cu_seqlens,
        queries.longest,
        keys.longest,
        **options,
    )
    assert isinstance(context, Tensor)
    return context.reshape(queries.total, -1)
