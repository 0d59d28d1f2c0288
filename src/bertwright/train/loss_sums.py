"""Losses summed over micro-batches and steps, and their means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bertwright.nn.objective import Loss


class LossSums:
    """Sums by objective over the micro-batches of a step, or of a validation."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.corrects: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.flops = 0.0

    def add(self, name: str, loss: Loss) -> None:
        """Add an objective's loss of a micro-batch."""
        total, correct = loss.total.detach(), loss.correct
        self.totals[name] = self.totals[name] + total if name in self.totals else total
        if correct is not None:
            before = self.corrects.get(name)
            self.corrects[name] = correct if before is None else before + correct
        self.counts[name] = self.counts.get(name, 0) + loss.count

    def numbers(self, names: Sequence[str]) -> list[float]:
        """Total, correct and count of each objective; where nothing is right or wrong, correct is
        minus the count, so that sums of such numbers still show it. Read from the device at
        once."""
        unread = self.unread(names)
        return self.read(names, [] if unread is None else unread.tolist())

    def unread(self, names: Sequence[str]) -> Tensor | None:
        """What of these numbers is on the device, float64: of each objective its total and, if it
        has one, its correct; None: nothing."""
        found = [
            sums[name].double()
            for name in names
            for sums in (self.totals, self.corrects)
            if name in sums
        ]
        return torch.stack(found) if found else None

    def read(self, names: Sequence[str], unread: Iterable[float]) -> list[float]:
        """The `numbers`, of what `unread` holds."""
        following, found = iter(unread), []
        for name in names:
            count = float(self.counts.get(name, 0))
            found.append(next(following) if name in self.totals else 0.0)
            found.append(next(following) if name in self.corrects else -count)
            found.append(count)
        return found


@dataclass
class Window:
    """The steps since the last line of the log.

    It holds plain numbers, so that a checkpoint keeps it: the next line of a resumed run is of
    the same steps as that of a run that was never stopped.
    """

    step: int = 0
    """Step after which it begins."""
    tokens: int = 0
    """Tokens seen before it."""
    seconds: float = 0.0
    """When it begins, in seconds of the run."""
    steps: int = 0
    """Steps of it whose gradients were used."""
    sums: list[float] = field(default_factory=list)
    """Total, correct and count of each objective, of this rank."""
    flops: float = 0.0
    """Floating-point operations, of this rank."""
    paused: float = 0.0
    """Seconds of validating and saving in it."""
    gradient_norm: float = 0.0
    """Sum of the steps' norms."""
    learning_rate: float = 0.0
    """Of the last step."""

    def join(self, numbers: Sequence[float], flops: float, norm: float, rate: float) -> None:
        """Add a step that was done: its losses' `numbers`, its operations, its norm and rate."""
        sums = self.sums or [0.0] * len(numbers)
        self.sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        self.flops += flops
        self.steps += 1
        self.gradient_norm += norm
        self.learning_rate = rate


def means(names: Sequence[str], sums: Sequence[float]) -> dict[str, float]:
    """Means by objective and their sum, of (total, correct, count) triples (`LossSums.numbers`); an
    objective without predictions, as a task without a step, is left out, and so is the
    accuracy of one that knows no right and wrong."""
    record = {"loss": 0.0}
    for number, name in enumerate(names):
        total, correct, count = sums[3 * number : 3 * number + 3]
        if count:
            record[f"{name}.loss"] = total / count
            if correct >= 0:
                record[f"{name}.accuracy"] = correct / count
            record["loss"] += record[f"{name}.loss"]
    return record
