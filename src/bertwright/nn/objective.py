"""Objectives, their losses, and the learner: an encoder with the objectives that train it.

A loss is a sum and a count. A mean of the means of micro-batches would be wrong whenever their
counts differ; sums are exact. The gradient of a step is the sum over its micro-batches and ranks,
divided once by the count of the whole step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from torch import Tensor, nn

from bertwright.nn.batch import Batch
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.sequences import Inputs


@dataclass(frozen=True)
class Loss:
    """A summed loss and its count, so that any split of a batch gives the same gradient."""

    total: Tensor
    """The summed loss, a float32 scalar."""
    count: int
    """The number of predictions in the sum."""
    correct: Tensor | None
    """How many predictions are right; None for a regression."""

    def shared(self, fraction: float) -> Loss:
        """Return the same loss with its gradient scaled by `fraction`; the logged value stays."""
        if fraction == 1:
            return self
        value = self.total.detach()
        return replace(self, total=value + fraction * (self.total - value))


@runtime_checkable
class GivesLogits(Protocol):
    """An objective that scores classes, such as the tokens of a vocabulary."""

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores of C classes before the softmax: vectors `[R, H]` -> `[R, C]`."""


B = TypeVar("B", contravariant=True)


class Objective(nn.Module, Generic[B]):
    """Computes a `Loss` from an encoder's vectors and the labels of a batch."""

    title: str = ""
    """Its name in the log and on pages; empty: its name in the learner."""
    layers: tuple[int, ...] | None = None
    """The layers it reads, 0 the embeddings, 1 to L; None: the last, or the pooled vector."""
    reads_pooled: bool = False
    """Whether it reads `Encoded.pooled` alone."""
    reads_embeddings: bool = False
    """Whether it multiplies by the whole table of the encoder's token embeddings."""

    def forward(self, encoded: Encoded, batch: B) -> Loss:
        """Return the loss summed over a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def count(self, batch: B) -> int:
        """Return the number of predictions of a batch, before it is encoded."""
        raise NotImplementedError(f"{type(self).__name__} defines no count")

    def positions(self, batch: B) -> Tensor | None:
        """Return the positions in N at which it reads the last layer by `Encoded.at`, `[R]`.

        They are empty if it reads the pooled vector alone; None: it reads all positions.
        """
        return None

    def flops(self, batch: B) -> float:
        """Return the floating-point operations of its own matrix products, forward and backward."""
        return 0.0


class Learner(nn.Module):
    """An encoder and the objectives that train it: the module that is trained and saved."""

    def __init__(self, encoder: Encoder, objectives: dict[str, Objective[Any]]) -> None:
        super().__init__()
        self.encoder = encoder
        self.objectives = nn.ModuleDict(objectives)
        self.auxiliary: dict[str, float] = {}
        """Objectives that a batch of any task trains too, and the factor of their gradient."""

    def active(self, batch: Batch) -> dict[str, Objective[Any]]:
        """Return the objectives that a batch trains: the one named by `batch.task` and the
        auxiliary ones, or all if it names none."""
        names = list(self.objectives) if batch.task is None else [batch.task, *self.auxiliary]
        return {name: cast("Objective[Any]", self.objectives[name]) for name in names}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of predictions of a batch by objective, before it is encoded."""
        return {name: objective.count(batch) for name, objective in self.active(batch).items()}

    def encode(self, batch: Batch, objectives: Sequence[Objective[Any]]) -> Encoded:
        """Encode a batch up to the highest layer that `objectives` read."""
        needed = [objective.layers for objective in objectives]
        layers = [number for numbers in needed if numbers is not None for number in numbers]
        if not layers:
            return self._encode(batch.inputs, positions=_positions(batch, objectives))
        top = None if None in needed else max(layers)
        return self._encode(batch.inputs, top=top, keep_layers=True)

    def _encode(self, inputs: Inputs, **options: Any) -> Encoded:
        return cast(Encoded, self.encoder(inputs, **options))

    def depths(self) -> dict[str, int]:
        """Return the depth of every parameter by name: 0 the embeddings, 1 to L the layers, L + 1
        the pooler and the objectives."""
        stages = self.encoder.stages()
        depth_of = {id(p): depth for depth, stage in enumerate(stages) for p in stage.parameters()}
        top = max(1, len(stages))
        return {name: depth_of.get(id(p), top) for name, p in self.named_parameters()}

    def tokens_read(self, batch: Batch) -> int:
        """Return the number of tokens for which a batch computes the last layer."""
        positions = _positions(batch, list(self.active(batch).values()))
        sequences = batch.inputs.sequences
        return sequences.total if positions is None else sequences.count + len(positions)

    def flops(self, batch: Batch) -> float:
        """Return the floating-point operations of the matrix products of a forward and a backward
        pass."""
        encoder = self.encoder.flops(batch.inputs.sequences.lengths, self.tokens_read(batch))
        return encoder + sum(objective.flops(batch) for objective in self.active(batch).values())

    def forward(self, batch: Batch) -> dict[str, Loss]:
        """Return the losses by objective."""
        active = self.active(batch)
        encoded = self.encode(batch, list(active.values()))
        return {
            name: objective(encoded, batch).shared(self.auxiliary.get(name, 1.0))
            for name, objective in active.items()
        }


def _positions(batch: Batch, objectives: Sequence[Objective[Any]]) -> Tensor | None:
    """Return the positions in N at which the last layer is read; None, so all, if more than one
    objective reads tokens."""
    needed = [objective.positions(batch) for objective in objectives]
    read = [positions for positions in needed if positions is None or len(positions)]
    if not read:
        return needed[0]
    return read[0] if len(read) == 1 else None
