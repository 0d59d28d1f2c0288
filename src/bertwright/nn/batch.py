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
class Shared:
    """What the loss of a whole step is for the rows of one micro-batch (`StepObjective`)."""

    gradient: Tensor
    """`[R, W]`, the gradient of the summed loss of the step to each vector."""
    total: Tensor
    """The part of the summed loss that is counted here, a scalar."""
    correct: Tensor | None
    """How many of the predictions that are counted here are right."""


@dataclass(frozen=True)
class Batch:
    """Sequences laid end to end, with the labels that a subclass adds."""

    inputs: Inputs
    """The sequences that the encoder reads."""
    task: str | None = field(default=None, kw_only=True)
    """The name of the objective, in the learner, that the batch trains; None: all of them."""
    shared: Shared | None = field(default=None, kw_only=True)
    """What the other micro-batches of the step decide, for a `StepObjective`; None: the batch is a
    step by itself.
    """

    @property
    def num_tokens(self) -> int:
        """N, the tokens of all sequences."""
        return self.inputs.sequences.total

    def to(self, device: torch.device | str) -> Self:
        """Return the batch with all tensors on a device; copies to CUDA do not block the host."""
        device = torch.device(device)
        if device == self.inputs.ids.device:
            return self
        moved = {each.name: _moved(getattr(self, each.name), device) for each in fields(self)}
        return replace(self, **moved)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return send(value, device)
    return value.to(device) if isinstance(value, Inputs | Batch) else value
