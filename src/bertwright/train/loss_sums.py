"""Sum losses over micro-batches and steps, and compute their means."""

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
        """Return total, correct and count of each objective, read from the device at once.

        For an objective that is neither right nor wrong, correct is minus the count, so that sums
        over steps and ranks still show it.
        """
        unread = self.unread(names)
        return self.read(names, [] if unread is None else unread.tolist())

    def unread(self, names: Sequence[str]) -> Tensor | None:
        """Return those numbers that are on the device, float64, or None if there are none.

        They are the total of each objective and, if it has one, its number of correct predictions.
        """
        sums_on_device = [
            sums[name].double()
            for name in names
            for sums in (self.totals, self.corrects)
            if name in sums
        ]
        return torch.stack(sums_on_device) if sums_on_device else None

    def read(self, names: Sequence[str], unread: Iterable[float]) -> list[float]:
        """Return the `numbers`, given the values of `unread`."""
        following, numbers = iter(unread), []
        for name in names:
            count = float(self.counts.get(name, 0))
            numbers.append(next(following) if name in self.totals else 0.0)
            numbers.append(next(following) if name in self.corrects else -count)
            numbers.append(count)
        return numbers


@dataclass
class Window:
    """The steps since the last line of the log.

    It holds plain numbers, so that a checkpoint can store it: the next line of a resumed run covers
    the same steps as that of a run that was never stopped.
    """

    step: int = 0
    """The step after which the window begins."""
    tokens: int = 0
    """The number of tokens seen before it."""
    seconds: float = 0.0
    """The time at which it begins, in seconds of the run."""
    steps: int = 0
    """The number of its steps whose gradients were used."""
    sums: list[float] = field(default_factory=list)
    """Total, correct and count of each objective, on this rank."""
    flops: float = 0.0
    """The floating-point operations, on this rank."""
    paused: float = 0.0
    """The seconds spent on validating and saving."""
    gradient_norm: float = 0.0
    """The sum of the norms of the steps' gradients."""
    learning_rate: float = 0.0
    """The learning rate of the last step."""

    def join(self, numbers: Sequence[float], flops: float, norm: float, rate: float) -> None:
        """Add a step: its losses' `numbers`, its operations, its gradient norm and learning
        rate.
        """
        sums = self.sums or [0.0] * len(numbers)
        self.sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        self.flops += flops
        self.steps += 1
        self.gradient_norm += norm
        self.learning_rate = rate


def means(names: Sequence[str], sums: Sequence[float]) -> dict[str, float]:
    """Return the mean loss and accuracy of each objective, and the sum of the losses.

    `sums` has the triples of total, correct and count that `LossSums.numbers` returns. An objective
    without predictions, such as a task without a step, is left out; so is the accuracy of an
    objective that is neither right nor wrong.
    """
    record = {"loss": 0.0}
    for number, name in enumerate(names):
        total, correct, count = sums[3 * number : 3 * number + 3]
        if count:
            record[f"{name}.loss"] = total / count
            if correct >= 0:
                record[f"{name}.accuracy"] = correct / count
            record["loss"] += record[f"{name}.loss"]
    return record
