"""The phases of a run, which train on different instances one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.data.instances import Instances
from bertwright.nn.batch import Batch


@dataclass(frozen=True)
class Phase:
    """A part of a run."""

    instances: Instances[Batch]
    """Its training sequences."""
    tokens: int
    """The tokens of an optimizer step, over all ranks."""
    begin: float = 0.0
    """The fraction of the budget after which it begins."""


@dataclass(frozen=True)
class DataPosition:
    """The position of the next step in the data of a run."""

    phase: int = 0
    """The number of the phase, from 0."""
    epoch: int = 0
    """The epoch of the phase."""
    step: int = 0
    """The step in the epoch."""


@dataclass(frozen=True)
class Pass:
    """The result of one pass of a system that has a training loop of its own."""

    tokens: int
    """The number of tokens that were read."""
    metrics: dict[str, float]
    """Values for the log by their names in `metrics.jsonl`."""
