"""One process or many: what the loop asks of its neighbours.

Many processes are started by `torchrun`; PyTorch's DistributedDataParallel (Li et al. 2020) sums
their gradients. Nothing here is our own engine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bertwright.errors import ConfigError


@dataclass(frozen=True)
class Ranks:
    """This process among those of the run."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def sum(self, numbers: list[float]) -> list[float]:
        """Element-wise sums over all ranks, the same on each."""
        if self.world_size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return cast(list[float], tensor.tolist())

    def from_first(self, number: float) -> float:
        """The first rank's number, on every rank: clocks differ."""
        return self.sum([number if self.is_first else 0.0])[0]

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world_size > 1:
            dist.barrier()

    def wrap(self, learner: nn.Module) -> nn.Module:
        """The learner whose gradients are averaged over the ranks."""
        if self.world_size == 1:
            return learner
        devices = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(learner, device_ids=devices)


@contextlib.contextmanager
def join_ranks(device: str = "auto") -> Iterator[Ranks]:
    """Join the processes that torchrun started; alone if there are none.

    Raises:
        ConfigError: a GPU is asked for and there is none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but PyTorch sees no GPU here; use --device cpu")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    place = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(place)
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        yield Ranks(0, 1, place)
        return
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Ranks(dist.get_rank(), world_size, place)
        dist.barrier()  # a process that leaves while another talks to it takes it along
    finally:
        dist.destroy_process_group()
