"""The parts of a run: phases, which train on different instances one after the other, or passes."""

from __future__ import annotations

import time
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
    done: float = 1.0
    """The fraction of the run that is done; 1 after the last pass."""


class PassBudget:
    """The length of a run that is trained in passes: a number of passes, a time, or both, of which
    the shorter one ends the run, in the middle of a pass if necessary.
    """

    def __init__(
        self,
        epochs: float | None,
        minutes: float | None = None,
        begun: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Start the clock.

        Args:
            epochs: the number of passes, which need not be whole; None: no limit.
            minutes: wall-clock minutes; None: no limit.
            begun: the number of passes that were done before.
            seconds: the time that was spent before.
        """
        self.epochs, self.minutes, self.begun = epochs, minutes, begun
        self._before = seconds
        self.start()

    def start(self) -> None:
        """Start the clock again, at the time that was spent before: what came until now prepared
        the training.
        """
        self._start = time.monotonic() - self._before

    @property
    def seconds(self) -> float:
        """The time that the run has spent."""
        return time.monotonic() - self._start

    def done(self, number: int, part: float = 0.0) -> float:
        """Return the fraction of the run that is done when a fraction `part` of pass `number`, from
        0, is done; at most 1.
        """
        by_passes = 0.0 if self.epochs is None else (number + part) / self.epochs
        if self.minutes is None:
            return min(1.0, by_passes)
        by_time = self.seconds / (60 * self.minutes)
        return min(1.0, max(by_passes, by_time))
