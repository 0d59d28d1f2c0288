"""A loss is a sum and a count; a learner is an encoder with its objectives.

A mean of micro-batch means is wrong whenever their counts differ. Sums are exact: the gradient of
a step is the sum over its micro-batches and ranks, divided once by the counts of the whole step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from torch import Tensor, nn

from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.sequences import Inputs


@dataclass(frozen=True)
class Loss:
    """A sum and what it was summed over, so that any split of a batch gives the same gradient."""

    total: Tensor
    """Summed loss, a float32 scalar."""
    count: int
    """Predictions it was summed over."""
    correct: Tensor | None
    """How many of them were right; None where a prediction is not right or wrong (a number)."""

    def shared(self, share: float) -> Loss:
        """The same with `share` of its gradient; the value that is logged stays."""
        value = self.total.detach()
        return self if share == 1 else replace(self, total=value + share * (self.total - value))


class HasInputs(Protocol):
    """Any batch: what the encoder reads of it, as tensors on the learner's device."""

    @property
    def inputs(self) -> Inputs:
        """Ids, sequences, segments."""


Batch = TypeVar("Batch", contravariant=True)


class Objective(nn.Module, Generic[Batch]):
    """Turns vectors and a batch's labels into a `Loss`."""

    title: str = ""
    """What the log and the pages call it; empty: its name in the learner."""
    layers: tuple[int, ...] | None = None
    """Layers it reads, 0 the embeddings, 1 to L; None: the last, or the pooled vector."""
    reads_pooled: bool = False
    """Whether it reads `Encoded.pooled` alone."""
    reads_embeddings: bool = False
    """Whether the encoder's token embeddings, all of them, are weights of its own too."""

    def forward(self, encoded: Encoded, batch: Batch) -> Loss:
        """Sum this objective's loss over a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def count(self, batch: Batch) -> int:
        """Predictions of a batch, known before it is encoded."""
        raise NotImplementedError(f"{type(self).__name__} defines no count")

    def positions(self, batch: Batch) -> Tensor | None:
        """Where in N it reads the last layer by `Encoded.at`, `[R]`; empty if it reads the pooled
        vector alone; None: everywhere."""
        return None

    def flops(self, batch: Batch) -> float:
        """Floating-point operations of its own matrix products, forward and backward."""
        return 0.0


class Learner(nn.Module):
    """An encoder and the objectives that train it: what the trainer wraps, steps and saves."""

    def __init__(self, encoder: Encoder, objectives: dict[str, Objective[Any]]) -> None:
        super().__init__()
        self.encoder = encoder
        self.objectives = nn.ModuleDict(objectives)
        self.auxiliary: dict[str, float] = {}
        """Objectives that a batch of any task trains too, and what share their gradient has."""

    def active(self, batch: HasInputs) -> dict[str, Objective[Any]]:
        """The objectives that a batch is for: the one that it names (`batch.task`), with the
        auxiliary ones, or all."""
        task = getattr(batch, "task", None)
        names = list(self.objectives) if task is None else [task, *self.auxiliary]
        return {name: cast("Objective[Any]", self.objectives[name]) for name in names}

    def counts(self, batch: HasInputs) -> dict[str, int]:
        """Predictions of a batch by objective, known before it is encoded."""
        return {name: objective.count(batch) for name, objective in self.active(batch).items()}

    def encode(self, batch: HasInputs, objectives: Sequence[Objective[Any]]) -> Encoded:
        """What `objectives` read of a batch: the graph ends at the highest layer they need."""
        needed = [objective.layers for objective in objectives]
        layers = [number for numbers in needed if numbers is not None for number in numbers]
        if not layers:
            return self._encode(batch.inputs, positions=_positions(batch, objectives))
        top = None if None in needed else max(layers)
        return self._encode(batch.inputs, top=top, keep_layers=True)

    def _encode(self, inputs: Inputs, **options: Any) -> Encoded:
        return cast(Encoded, self.encoder(inputs, **options))

    def depths(self) -> dict[str, int]:
        """The depth of every parameter by name, from the encoder's stages: 0 the embeddings, 1 to L
        the layers, L + 1 the pooler and the objectives."""
        stages = self.encoder.stages()
        depth_of = {id(p): depth for depth, stage in enumerate(stages) for p in stage.parameters()}
        top = max(1, len(stages))
        return {name: depth_of.get(id(p), top) for name, p in self.named_parameters()}

    def tokens_read(self, batch: HasInputs) -> int:
        """How many tokens of the last layer are computed for a batch."""
        positions = _positions(batch, list(self.active(batch).values()))
        sequences = batch.inputs.sequences
        return sequences.total if positions is None else sequences.count + len(positions)

    def flops(self, batch: HasInputs) -> float:
        """Floating-point operations of a forward and a backward pass, in matrix products."""
        encoder = self.encoder.flops(batch.inputs.sequences.lengths, self.tokens_read(batch))
        return encoder + sum(each.flops(batch) for each in self.active(batch).values())

    def forward(self, batch: HasInputs) -> dict[str, Loss]:
        """Losses by objective."""
        active = self.active(batch)
        encoded = self.encode(batch, list(active.values()))
        return {
            name: objective(encoded, batch).shared(self.auxiliary.get(name, 1.0))
            for name, objective in active.items()
        }


def _positions(batch: HasInputs, objectives: Sequence[Objective[Any]]) -> Tensor | None:
    """Where in N the last layer is read; everywhere if more than one objective reads tokens."""
    needed = [objective.positions(batch) for objective in objectives]
    read = [positions for positions in needed if positions is None or len(positions)]
    if not read:
        return needed[0]
    return read[0] if len(read) == 1 else None
