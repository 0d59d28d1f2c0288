"""What the machine at hand can do, measured: precision, peak rate, memory; and its allocator."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from typing import Literal

import torch

Precision = Literal["bf16", "fp32"]

# glibc's mallopt: numbers from malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8


def keep_freed_memory() -> None:
    """Let glibc keep what is freed.

    By default every tensor over 32 MB is a fresh mapping whose pages are faulted in and cleared at
    each use. Keeping them made training steps on two cores 1.2 times faster.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_M_MMAP_THRESHOLD, 2**31 - 1)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(_M_TOP_PAD, 64 * 2**20)
    # A second thread else has an arena of its own, which maps large tensors anew.
    libc.mallopt(_M_ARENA_MAX, 1)


def keep_few_kernels() -> None:
    """Have oneDNN forget more of the kernels it makes, one for every shape of a product.

    Batches of texts have ever new shapes, and a kernel takes half a megabyte; it keeps 1,024 by
    default. With 256, 60 steps on such batches ended at 1.26 GB in place of 1.54 and took 1.03
    times as long, on a busy machine. To be called before the first product; a value set outside
    stays.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


def matmul_rate(device: torch.device, precision: Precision, seconds: float = 0.15) -> float:
    """Floating-point operations a second of a large matrix product, the best of several."""
    size = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(size, size, device=device).to(dtype)
    torch.mm(a, a)
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:  # once at least, however slow
        _wait(device)
        start = time.perf_counter()
        torch.mm(a, a)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def choose_precision(device: torch.device, asked: str = "auto") -> tuple[Precision, float]:
    """bf16 where it is measured to be faster than float32, and the peak rate of what is chosen."""
    if asked != "auto":
        precision: Precision = "bf16" if asked == "bf16" else "fp32"
        return precision, matmul_rate(device, precision)
    rates: dict[Precision, float] = {p: matmul_rate(device, p) for p in ("bf16", "fp32")}
    chosen: Precision = "bf16" if rates["bf16"] > 1.2 * rates["fp32"] else "fp32"
    return chosen, rates[chosen]


def memory_gb(device: torch.device) -> float:
    """The most memory held so far, in GB: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
