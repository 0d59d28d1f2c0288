"""Sum losses over micro-batches and steps, and compute their means.

The sums of an objective are four numbers, in this order: `total`, its summed loss; `count`, the
number of its predictions; `judged`, the number of those predictions that are either right or wrong
(none of a regression, nor of a sampled softmax); `correct`, the number that are right. All four
can be added over micro-batches, steps and ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bertwright.nn.batch import Batch
from bertwright.nn.objective import Learner, Loss
from bertwright.train.distributed import reshard
from bertwright.train.hardware import Hardware

NUMBERS = 4
"""The number of sums of an objective."""


class LossSums:
    """Sums by objective over the micro-batches of a step, or of a validation."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.corrects: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.judged: dict[str, int] = {}
        self.flops = 0.0

    def add(self, name: str, loss: Loss) -> None:
        """Add an objective's loss of a micro-batch."""
        total, correct = loss.total.detach(), loss.correct
        self.totals[name] = self.totals[name] + total if name in self.totals else total
        self.counts[name] = self.counts.get(name, 0) + loss.count
        if correct is not None:
            before = self.corrects.get(name)
            self.corrects[name] = correct if before is None else before + correct
            self.judged[name] = self.judged.get(name, 0) + loss.count

    def numbers(self, names: Sequence[str]) -> list[float]:
        """Return the sums of each objective, read from the device at once."""
        unread = self.unread(names)
        return self.read(names, [] if unread is None else unread.tolist())

    def unread(self, names: Sequence[str]) -> Tensor | None:
        """Return those sums that are on the device, float64, or None if there are none.

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
            total = next(following) if name in self.totals else 0.0
            correct = next(following) if name in self.corrects else 0.0
            count, judged = self.counts.get(name, 0), self.judged.get(name, 0)
            numbers += [total, float(count), float(judged), correct]
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
    """The sums of each objective, on this rank; empty before the first step."""
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


def weighted(losses: Mapping[str, Loss], weights: Mapping[str, float]) -> Tensor:
    """Return the sum of losses, each times the weight of its objective."""
    return torch.stack([loss.total * weights[name] for name, loss in losses.items()]).sum()


def means(names: Sequence[str], sums: Sequence[float]) -> dict[str, float]:
    """Return the mean loss and accuracy of each objective, and the sum of the losses.

    An objective without predictions, such as a task without a step, is left out; so is the accuracy
    of an objective whose predictions are neither right nor wrong.
    """
    record = {"loss": 0.0}
    for number, name in enumerate(names):
        total, count, judged, correct = sums[NUMBERS * number : NUMBERS * (number + 1)]
        if count:
            record[f"{name}.loss"] = total / count
            if judged:
                record[f"{name}.accuracy"] = correct / judged
            record["loss"] += record[f"{name}.loss"]
    return record


def mean_losses(learner: Learner, batches: Iterable[Batch], hardware: Hardware) -> dict[str, float]:
    """Return the mean loss and accuracy of each objective over batches, without training; the same
    on all ranks.
    """
    sums = LossSums()
    with torch.no_grad(), hardware.autocast():
        for batch, counts_here in hardware.ranks.evened(batches):
            losses = learner(batch)
            if counts_here:
                for name, loss in losses.items():
                    sums.add(name, loss)
    reshard(learner)
    names = list(learner.objectives)
    return means(names, hardware.ranks.sum(sums.numbers(names)))
