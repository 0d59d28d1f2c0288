"""The parts of a run: one phase of instances, or several one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.data.instances import Instances
from bertwright.nn.batch import Batch


@dataclass(frozen=True)
class Phase:
    """A part of a run."""

    instances: Instances[Batch]
    """What it trains on."""
    tokens: int
    """Tokens of its optimizer steps, over all ranks."""
    begin: float = 0.0
    """The fraction of the budget after which it begins."""


@dataclass(frozen=True)
class Pass:
    """One pass of a system that has its own loop: what it read and measured."""

    tokens: int
    """Tokens that were read."""
    metrics: dict[str, float]
    """What goes into the log, by the names of `metrics.jsonl`."""
