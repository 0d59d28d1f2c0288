"""A loss is a sum and a count; a learner is an encoder with its objectives.

A mean of micro-batch means is wrong whenever their counts differ. Sums are exact: the gradient of
a step is the sum over its micro-batches and ranks, divided once by the counts of the whole step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from torch import Tensor, nn

from bertwright.models.encoder import Encoded
from bertwright.nn.sequences import Sequences


@dataclass(frozen=True)
class Loss:
    """A sum and what it was summed over, so that any split of a batch gives the same gradient."""

    total: Tensor
    """Summed loss, a float32 scalar."""
    count: int
    """Predictions it was summed over."""
    correct: Tensor | None
    """How many of them were right; None where none is right or wrong, as a number."""


class Examples(Protocol):
    """What a learner reads of a batch, as tensors on its device."""

    @property
    def input_ids(self) -> Tensor:
        """[N]"""

    @property
    def token_type_ids(self) -> Tensor:
        """[N]"""

    @property
    def sequences(self) -> Sequences:
        """The bounds."""


Batch = TypeVar("Batch", contravariant=True)


class Objective(nn.Module, Generic[Batch]):
    """Turns vectors and a batch's labels into a `Loss`."""

    layers: tuple[int, ...] | None = None
    """Layers it reads, 0 the embeddings, 1 to L; None: the last, and the pooler."""

    def forward(self, encoded: Encoded, batch: Batch) -> Loss:
        """Sum this objective's loss over a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def count(self, batch: Batch) -> int:
        """Predictions of a batch, known before it is encoded."""
        raise NotImplementedError(f"{type(self).__name__} defines no count")

    def places(self, batch: Batch) -> Tensor | None:
        """Where in N it reads the last layer by `Encoded.at`, `[R]`; empty if it reads the pooler
        alone; None: everywhere."""
        return None


class Learner(nn.Module):
    """An encoder and the objectives that teach it: what the trainer wraps, steps and saves."""

    def __init__(self, encoder: nn.Module, objectives: dict[str, Objective[Any]]) -> None:
        super().__init__()
        self.encoder = encoder
        self.objectives = nn.ModuleDict(objectives)

    def taught(self, batch: Examples) -> dict[str, Objective[Any]]:
        """The objectives that a batch is for: the one it names, or all."""
        task = getattr(batch, "task", None)
        names = list(self.objectives) if task is None else [task]
        return {name: cast("Objective[Any]", self.objectives[name]) for name in names}

    def counts(self, batch: Examples) -> dict[str, int]:
        """Predictions of a batch by objective, known before it is encoded."""
        return {name: objective.count(batch) for name, objective in self.taught(batch).items()}

    def encode(self, batch: Examples, objectives: Sequence[Objective[Any]]) -> Encoded:
        """What `objectives` read of a batch: the graph ends at the highest layer they need."""
        asked = [objective.layers for objective in objectives]
        layers = [number for numbers in asked if numbers is not None for number in numbers]
        inputs = batch.input_ids, batch.token_type_ids, batch.sequences
        if not layers:
            return cast(Encoded, self.encoder(*inputs, places=_places(batch, objectives)))
        top = None if None in asked else max(layers)
        return cast(Encoded, self.encoder(*inputs, top=top, keep_layers=True))

    def tokens_read(self, batch: Examples) -> int:
        """How many tokens of the last layer are computed for a batch."""
        places = _places(batch, list(self.taught(batch).values()))
        return batch.sequences.total if places is None else batch.sequences.count + len(places)

    def forward(self, batch: Examples) -> dict[str, Loss]:
        """Losses by objective."""
        taught = self.taught(batch)
        encoded = self.encode(batch, list(taught.values()))
        return {name: objective(encoded, batch) for name, objective in taught.items()}


def _places(batch: Examples, objectives: Sequence[Objective[Any]]) -> Tensor | None:
    """Where in N the last layer is read; everywhere if more than one objective reads tokens."""
    asked = [objective.places(batch) for objective in objectives]
    read = [places for places in asked if places is None or len(places)]
    if not read:
        return asked[0]
    return read[0] if len(read) == 1 else None
