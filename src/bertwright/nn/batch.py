"""The batch that an encoder reads and objectives learn from: a frozen dataclass of tensors.

A system's batch is a subclass that adds the labels of its objectives. Batches are made on the host
and copied to the device of the learner by `Batch.to`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.sequences import Inputs


@dataclass(frozen=True)
class StepShare:
    """The part of a step's loss that belongs to the rows of one micro-batch (`StepObjective`)."""

    gradient: Tensor
    """`[R, W]`, the gradient of the summed loss of the step with respect to each vector."""
    total: Tensor
    """The sum of the losses of the rows of this micro-batch, a scalar."""
    correct: Tensor | None
    """The number of correct predictions of the rows of this micro-batch; None where the objective
    counts none.
    """


@dataclass(frozen=True)
class Batch:
    """Sequences laid end to end, with the labels that a subclass adds."""

    inputs: Inputs
    """The sequences that the encoder reads."""
    task: str | None = field(default=None, kw_only=True)
    """The name of the learner's objective that the batch trains; None: it trains all of them."""
    share: StepShare | None = field(default=None, kw_only=True)
    """The loss and gradients that a `StepObjective` computed from all micro-batches of the step;
    None: the batch is a step by itself.
    """

    @property
    def num_tokens(self) -> int:
        """N, the number of tokens of all sequences."""
        return self.inputs.sequences.total

    def to(self, device: torch.device | str) -> Self:
        """Return the batch with all tensors on a device; copies to CUDA do not block the host."""
        device = torch.device(device)
        if device == self.inputs.ids.device:
            return self
        moved: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Tensor):
                moved[each.name] = send(value, device)
            elif isinstance(value, Inputs | Batch):
                moved[each.name] = value.to(device)
        return replace(self, **moved)
