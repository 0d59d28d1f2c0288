"""What the hardware can do, measured: the faster precision, its peak rate, memory in use."""

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
    """Floating-point operations a second of a matrix product, the best of several; a large one
    where `size`, its rows, is unset."""
    size = size or (8192 if device.type == "cuda" else 1024)
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


def use_own_cores() -> None:
    """Let torch compute in no more threads than this process may use cores: torch sees those of the
    whole machine where a container has a share of its time."""
    if (cores := usable_cores()) < torch.get_num_threads():
        torch.set_num_threads(cores)


def micro_tokens(device: torch.device) -> int:
    """Tokens of a micro-batch by default: on a CPU so few that every core has one of its
    own (train/loop.py)."""
    if device.type == "cuda":
        return 65536
    return max(1024, 4096 // torch.get_num_threads())


def choose_precision(device: torch.device, wanted: str = "auto") -> tuple[Precision, float]:
    """bf16 where it is measured to be faster than float32, and the peak rate of what is chosen."""
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
    """The most memory held so far, in GB: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
