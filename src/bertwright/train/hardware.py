"""Measure what the hardware can do: the faster precision, its peak rate, the memory in use."""

from __future__ import annotations

import resource
import sys
import time
from typing import Literal

import torch

from bertwright.machine import usable_cores

Precision = Literal["bf16", "fp32"]


def matmul_rate(
    device: torch.device, precision: Precision, seconds: float = 0.15, size: int | None = None
) -> float:
    """Return the best rate of a matrix product, in floating-point operations per second.

    `size` is the number of rows of the square matrices; None uses a large one.
    """
    size = size or (8192 if device.type == "cuda" else 1024)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a = torch.randn(size, size, device=device).to(dtype)
    torch.mm(a, a)
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:  # at least once, however slow
        _wait(device)
        start = time.perf_counter()
        torch.mm(a, a)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def use_own_cores() -> None:
    """Limit torch's threads to the number of cores that this process may use.

    In a container with a share of a machine's time, torch sees the cores of the whole machine.
    """
    if (cores := usable_cores()) < torch.get_num_threads():
        torch.set_num_threads(cores)


def micro_tokens(device: torch.device) -> int:
    """Return the default number of tokens in a micro-batch.

    On a CPU it is small, so that every core computes a micro-batch of its own (train/loop.py).
    """
    if device.type == "cuda":
        return 65536
    return max(1024, 4096 // torch.get_num_threads())


def choose_precision(device: torch.device, wanted: str = "auto") -> tuple[Precision, float]:
    """Return the precision and its peak rate. `auto` chooses bf16 if it is measured to be faster
    than float32.
    """
    if wanted != "auto":
        precision: Precision = "bf16" if wanted == "bf16" else "fp32"
        return precision, matmul_rate(device, precision)
    if device.type == "cpu":  # a processor without bf16 takes seconds for a large product
        small = [matmul_rate(device, p, seconds=0.01, size=256) for p in ("bf16", "fp32")]
        if small[0] < 0.5 * small[1]:
            return "fp32", matmul_rate(device, "fp32")
    rates: dict[Precision, float] = {p: matmul_rate(device, p) for p in ("bf16", "fp32")}
    chosen: Precision = "bf16" if rates["bf16"] > 1.2 * rates["fp32"] else "fp32"
    return chosen, rates[chosen]


def memory_gb(device: torch.device) -> float:
    """Return the peak memory so far in GB, of the GPU or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
