"""One process or many: what ranks do together.

Many processes are started by `torchrun`. With PyTorch's DistributedDataParallel (Li et al. 2020)
each holds all weights and gradients are averaged; with its FSDP2 (`fully_shard`; Zhao et al. 2023)
each keeps its shard of weights, gradients and moments, and a layer's weights are gathered for the
time they are used. Nothing here is our own engine.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertwright.errors import BertwrightError, ConfigError, IntegrityError

Parallel = Literal["ddp", "fsdp"]


@dataclass(frozen=True)
class Ranks:
    """This process among those of the run."""

    rank: int
    world_size: int
    device: torch.device
    parallel: Parallel = "ddp"
    """Whether each holds all weights, or its shard of them."""

    @property
    def is_sharded(self) -> bool:
        """Whether no rank holds all weights."""
        return self.parallel == "fsdp" and self.world_size > 1

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

    def require_same(self, what: str) -> None:
        """Raise IntegrityError on every rank unless all see what the first one does."""
        number = float(zlib.crc32(what.encode()))
        if self.sum([float(self.from_first(number) != number)])[0]:
            raise IntegrityError(
                f"the processes see different files, this one {what}: give all of them the same "
                "--data and, with --resume, the same --out, on a file system that they share"
            )

    def wait(self) -> None:
        """Until every rank is here."""
        if self.world_size > 1:
            dist.barrier()

    def shard(self, learner: nn.Module, layers: Iterable[nn.Module]) -> None:
        """Leave this rank its shard of the weights, in place, if they are to be sharded.

        To be called before optimizers are made: parameters become others. `layers` are gathered
        one after the other, all else for the whole of a pass.
        """
        if not self.is_sharded:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.world_size,))
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(learner, mesh=mesh)

    def wrap(self, learner: nn.Module) -> nn.Module:
        """The learner whose gradients are averaged over the ranks."""
        if self.world_size == 1 or self.is_sharded:
            return learner
        devices = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(learner, device_ids=devices)

    def together(self, wrapped: nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
        """Ranks add up their gradients with the last micro-batch of a step only; shards with each,
        as whole gradients would not leave room."""
        if last or self.world_size == 1 or self.is_sharded:
            return contextlib.nullcontext()
        no_sync: contextlib.AbstractContextManager[None] = cast(Any, wrapped).no_sync()
        return no_sync

    def evened(self, batches: Iterable[Any]) -> list[tuple[Any, bool]]:
        """Batches to run, one or more, and whether they count.

        Layers that are sharded are gathered from all ranks, so none can run alone: who has fewer
        batches than another runs its last again, for nothing.
        """
        own = [(batch, True) for batch in batches]
        if not self.is_sharded:
            return own
        most = torch.tensor(len(own), device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return own + [(own[-1][0], False)] * (int(most) - len(own))

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors in the first rank's memory, and none elsewhere; every rank calls this."""
        found = {}
        for name, tensor in tensors.items():
            if self.is_first or self.is_sharded:
                value = whole(tensor.detach()).cpu().contiguous()
                if self.is_first:
                    found[name] = value
        return found


def is_shard(x: Tensor) -> bool:
    """Whether this rank holds a shard of the tensor."""
    return hasattr(x, "full_tensor")


def whole(x: Tensor) -> Tensor:
    """A tensor of which this rank may hold a shard; then every rank has to call this."""
    gathered: Tensor = cast(Any, x).full_tensor() if is_shard(x) else x
    return gathered


def laid_like(value: Tensor, parameter: Tensor) -> Tensor:
    """A copy of a whole tensor where a parameter is, or of this rank's shard of it; a number is
    every rank's."""
    copy = value.to(parameter.device, copy=True)
    if not hasattr(parameter, "placements") or not value.ndim:
        return copy
    from torch.distributed.tensor import distribute_tensor

    sharded = cast(Any, parameter)
    return distribute_tensor(copy, sharded.device_mesh, sharded.placements, src_data_rank=None)


def reshard(learner: nn.Module) -> None:
    """Give up weights that a pass without a backward left gathered."""
    for module in learner.modules():
        if hasattr(module, "reshard"):
            cast(Any, module).reshard()


@contextlib.contextmanager
def join_ranks(device: str = "auto", parallel: Parallel = "ddp") -> Iterator[Ranks]:
    """Join the processes that torchrun started; alone if there are none.

    Raises:
        ConfigError: cuda where there is no GPU.
        BertwrightError: another process is gone, or has not answered for half an hour.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but PyTorch sees no GPU here; use --device cpu")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    own = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(own)
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        yield Ranks(0, 1, own, parallel)
        return
    try:
        dist.init_process_group("nccl" if on_gpu else "gloo")
        yield Ranks(dist.get_rank(), world_size, own, parallel)
        dist.barrier()  # a process that leaves while another talks to it takes it along
    except RuntimeError as error:
        if not re.search(r"by peer|Broken pipe|[Tt]imed out", str(error)):
            raise
        raise BertwrightError(
            "another process of the run is gone or hangs, so this one ends: the first "
            "message of the others says why"
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
