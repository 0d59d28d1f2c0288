"""The end of a step on a GPU, for whose numbers the host does not wait.

The device decides whether they are finite, and updates the weights only then. The numbers are read
after the next step has been queued, so the device always has work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertwright.nn.objective import Learner
from bertwright.train.loss_sums import LossSums
from bertwright.train.optim import Optimizers


@dataclass(frozen=True)
class Unread:
    """The sums of a step's losses and the norm of its gradient, which are copied to the host."""

    numbers: Tensor
    """The values of `LossSums.unread`, then the norm."""
    arrived: torch.cuda.Event | None
    """The event after which the numbers are on the host; None: they are already."""

    def read(self) -> tuple[list[float], float]:
        """Wait for the numbers, and return the values of `LossSums.unread` and the norm."""
        if self.arrived is not None:
            self.arrived.synchronize()
        *losses, norm = self.numbers.tolist()
        return losses, norm


def end_step(learner: Learner, optimizers: Optimizers, sums: LossSums, clip_norm: float) -> Unread:
    """Clip the gradients and update the weights, unless a number is not finite."""
    norm = clip_unread(learner.parameters(), clip_norm).double()[None]
    losses = sums.unread(list(learner.objectives))
    numbers = norm if losses is None else torch.cat([losses, norm])
    optimizers.step(good=numbers.isfinite().all())
    on_host = numbers.to("cpu", non_blocking=True)
    if not numbers.is_cuda:
        return Unread(on_host, None)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return Unread(on_host, arrived)


def clip_unread(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Clip gradients as `clip_gradients` does, and return the norm as a scalar on their device.

    The host does not wait for the norm. Gradients that are not finite stay so.
    """
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if most and gradients:
        torch._foreach_mul_(gradients, (most / norm).clamp(max=1.0))
    return norm
