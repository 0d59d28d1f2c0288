"""Distributed training: what the processes (ranks) of a run do together.

`torchrun` starts several processes. With PyTorch's DistributedDataParallel (Li et al. 2020) each
rank holds all weights, and gradients are averaged. With FSDP2 (`fully_shard`; Zhao et al. 2023)
each rank keeps its shard of weights, gradients and moments, and a layer's weights are gathered
while they are used. Both are PyTorch's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertwright.errors import BertwrightError, ConfigError, IntegrityError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Parallel = Literal["ddp", "fsdp"]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Ranks:
    """This process, one of the processes of the run."""

    rank: int
    world_size: int
    device: torch.device
    parallel: Parallel = "ddp"
    """Whether each rank holds all weights (`ddp`), or only its shard of them (`fsdp`)."""

    @property
    def is_sharded(self) -> bool:
        """Whether the weights are sharded, so that no rank holds all of them."""
        return self.parallel == "fsdp" and self.world_size > 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, numbers: list[float]) -> list[float]:
        """Return element-wise sums over all ranks, the same on each."""
        if self.world_size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return cast(list[float], tensor.tolist())

    def from_first(self, number: float) -> float:
        """Return the first rank's number on every rank, because clocks differ."""
        return self.sum([number if self.is_first else 0.0])[0]

    def require_same(self, what: str) -> None:
        """Raise IntegrityError on every rank if `what` differs from that of the first rank."""
        number = float(zlib.crc32(what.encode()))
        if self.sum([float(self.from_first(number) != number)])[0]:
            raise IntegrityError(
                f"the processes see different files, this one {what}: give all of them the same "
                "--data and, with --resume, the same --out, on a file system that they share"
            )

    def wait(self) -> None:
        """Wait until every rank has reached this call."""
        if self.world_size > 1:
            dist.barrier()

    def shard(self, learner: nn.Module, layers: Iterable[nn.Module]) -> None:
        """Shard the weights in place, if they are to be sharded.

        It must be called before optimizers are made, because it replaces the parameters. The
        `layers` are gathered one after the other, all other weights for the whole of a pass.
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
        """Return the learner in the module that averages gradients over the ranks, if there are
        several.
        """
        if self.world_size == 1 or self.is_sharded:
            return learner
        devices = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(learner, device_ids=devices)

    def together(self, wrapped: nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
        """Return the context of a micro-batch: gradients are averaged only after the last one of a
        step.

        Sharded gradients are reduced after each micro-batch, because whole gradients would not fit
        in memory.
        """
        if last or self.world_size == 1 or self.is_sharded:
            return contextlib.nullcontext()
        return cast(DistributedDataParallel, wrapped).no_sync()

    def evened(self, batches: Iterable[Item]) -> list[tuple[Item, bool]]:
        """Return the batches to run, and whether each counts.

        Sharded layers are gathered from all ranks, so no rank can run alone. A rank with fewer
        batches than another runs its last batch again, which does not count.
        """
        counted = [(batch, True) for batch in batches]
        if not self.is_sharded:
            return counted
        most = torch.tensor(len(counted), device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return counted + [(counted[-1][0], False)] * (int(most) - len(counted))

    def join_rows(self, x: Tensor, facts: Tensor) -> tuple[Tensor, Tensor, int]:
        """Return the rows of all ranks in the order of the ranks, and the index of this rank's
        first row.

        `x` is `[R, W]` float32 on the device, `facts` is `[R, K]` float64 on the host; R may differ
        between ranks. The results have the same devices and types: `[S, W]` and `[S, K]`.
        """
        if self.world_size == 1:
            return x, facts, 0
        counts = [torch.zeros(1, dtype=torch.long, device=self.device) for _ in self._all]
        dist.all_gather(counts, torch.tensor([len(x)], device=self.device))
        rows = [int(count) for count in counts]
        both = torch.zeros(max(rows), x.shape[1] + facts.shape[1], dtype=torch.float64)
        both = both.to(self.device)
        both[: len(x)] = torch.cat([x.double(), facts.to(self.device)], 1)
        gathered = [torch.empty_like(both) for _ in self._all]
        dist.all_gather(gathered, both)
        joined = torch.cat([each[:count] for each, count in zip(gathered, rows, strict=True)])
        own, others = torch.split(joined, [x.shape[1], facts.shape[1]], 1)
        return own.float(), others.cpu(), sum(rows[: self.rank])

    @property
    def _all(self) -> range:
        return range(self.world_size)

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors in the first rank's memory, and nothing on other ranks. Every rank
        must call it.
        """
        gathered = {}
        for name, tensor in tensors.items():
            if self.is_first or self.is_sharded:
                value = whole(tensor.detach()).cpu().contiguous()
                if self.is_first:
                    gathered[name] = value
        return gathered


def is_shard(x: Tensor) -> bool:
    """Return whether this rank holds only a shard of the tensor."""
    return hasattr(x, "full_tensor")


def whole(x: Tensor) -> Tensor:
    """Return the whole tensor. If it is sharded, every rank must call this."""
    return cast("DTensor", x).full_tensor() if is_shard(x) else x


def laid_like(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy of a whole tensor on a parameter's device, or this rank's shard of it. A scalar
    is the same on every rank.
    """
    copy = value.to(parameter.device, copy=True)
    if not hasattr(parameter, "placements") or not value.ndim:
        return copy
    from torch.distributed.tensor import distribute_tensor

    sharded = cast(Any, parameter)
    return distribute_tensor(copy, sharded.device_mesh, sharded.placements, src_data_rank=None)


def reshard(learner: nn.Module) -> None:
    """Free the weights that a pass without a backward pass left gathered."""
    for module in learner.modules():
        if hasattr(module, "reshard"):
            cast(Any, module).reshard()


@contextlib.contextmanager
def join_ranks(device: str = "auto", parallel: Parallel = "ddp") -> Iterator[Ranks]:
    """Join the processes that torchrun started; without torchrun, the process is alone.

    If another process ends, or does not answer for half an hour, this one ends with an error.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, but PyTorch sees no GPU here; use --device cpu")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    this_device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(this_device)
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        yield Ranks(0, 1, this_device, parallel)
        return
    try:
        dist.init_process_group("nccl" if on_gpu else "gloo")
        yield Ranks(dist.get_rank(), world_size, this_device, parallel)
        dist.barrier()  # a process that ends while another communicates with it makes it fail
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
