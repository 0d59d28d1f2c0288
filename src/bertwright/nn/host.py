"""Tensors that are made on the host, on the way to the device where they are used.

A copy to a GPU from ordinary memory makes the host wait; from pinned memory it is queued behind the
work that the GPU has, and the host goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """x of the host, on a device; to CUDA from pinned memory, without waiting."""
    device = torch.device(device)
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def send_numbers(numbers: Sequence[Any], device: torch.device | str) -> Tensor:
    """Whole numbers, or lists of them, as int64 on a device, without waiting."""
    return send(torch.tensor(numbers, dtype=torch.long), device)
