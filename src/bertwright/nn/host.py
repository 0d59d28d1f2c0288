"""Copies of tensors from the host to a device.

A copy to a GPU from pageable memory blocks the host; a copy from pinned memory is queued behind the
GPU's other work, and the host continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """Return x on a device; copies to CUDA go through pinned memory and do not block."""
    device = torch.device(device)
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def send_numbers(numbers: Sequence[Any], device: torch.device | str) -> Tensor:
    """Return integers, or lists of integers, as an int64 tensor on a device, without blocking."""
    return send(torch.tensor(numbers, dtype=torch.long), device)
