"""What the hardware can do: its faster precision, its measured peak rate, the memory in use."""

from __future__ import annotations

import platform
import resource
import sys
import time
from dataclasses import dataclass
from typing import Literal

import torch

from bertwright.machine import usable_cores
from bertwright.train.distributed import Ranks

Precision = Literal["bf16", "fp32"]


@dataclass(frozen=True)
class Hardware:
    """The processes of a run, and how their devices multiply matrices."""

    ranks: Ranks
    precision: Precision
    peak: float
    """The measured rate of such products, in floating-point operations per second."""

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.ranks.device

    def autocast(self) -> torch.autocast:
        """Return the context in which matrix products have the precision of the run."""
        return autocast(self.device, self.precision)


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

    On a CPU it is small, so that every core computes a micro-batch of its own (train/cpu_step.py).
    """
    if device.type == "cuda":
        return 65536
    return max(1024, 4096 // torch.get_num_threads())


def choose_precision(device: torch.device, wanted: str = "auto") -> tuple[Precision, float]:
    """Return the precision and its measured peak rate. `auto` is bf16 if the hardware multiplies it
    faster than float32.

    The rate is only for the log. It does not choose, because beside other processes a measurement
    sometimes prefers the other precision, and then the same seed gives other weights.
    """
    if wanted == "auto":
        wanted = "bf16" if multiplies_bfloat16(device) else "fp32"
    precision: Precision = "bf16" if wanted == "bf16" else "fp32"
    return precision, matmul_rate(device, precision)


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Return the context in which matrix products have the given precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether the hardware has instructions for products in bfloat16, which are about twice
    as fast as those in float32, or faster: tensor cores, AMX, AVX-512 BF16 or Arm's BF16.

    A processor with AVX-512 alone computes such products too, but more slowly.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
    arm = sys.platform == "linux" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return arm and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def memory_gb(device: torch.device) -> float:
    """Return the peak memory so far in GB, of the GPU or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
