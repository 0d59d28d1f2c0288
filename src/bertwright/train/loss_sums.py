"""Losses summed over micro-batches and steps, and what is said of them."""

from __future__ import annotations

from torch import Tensor

from bertwright.objectives.objective import Loss


class LossSums:
    """Sums by objective, over the micro-batches of a step or the steps between two log lines."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.corrects: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.flops = 0.0
        self.paused = 0.0  # seconds of validating and saving in between
        self.steps = 0
        self.gradient_norm = 0.0
        self.learning_rate = 0.0

    def add(self, name: str, loss: Loss) -> None:
        """Add an objective's loss of a micro-batch."""
        total, correct = loss.total.detach(), loss.correct
        self.totals[name] = self.totals[name] + total if name in self.totals else total
        self.corrects[name] = self.corrects[name] + correct if name in self.corrects else correct
        self.counts[name] = self.counts.get(name, 0) + loss.count

    def join(self, step: LossSums, norm: float, rate: float) -> None:
        """Add a step that was done."""
        for name, total in step.totals.items():
            correct, count = step.corrects[name], step.counts[name]
            self.totals[name] = self.totals.get(name, 0) + total
            self.corrects[name] = self.corrects.get(name, 0) + correct
            self.counts[name] = self.counts.get(name, 0) + count
        self.flops += step.flops
        self.steps += 1
        self.gradient_norm += norm
        self.learning_rate = rate

    def numbers(self, names: list[str]) -> list[float]:
        """Total, correct and count of each objective."""
        return [
            float(number)
            for name in names
            for number in (
                self.totals.get(name, 0),
                self.corrects.get(name, 0),
                self.counts.get(name, 0),
            )
        ]


def means(names: list[str], sums: list[float]) -> dict[str, float]:
    """Means by objective and their sum, of (total, correct, count) triples."""
    record = {"loss": 0.0}
    for place, name in enumerate(names):
        total, correct, count = sums[3 * place : 3 * place + 3]
        record[f"{name}.loss"] = total / max(1.0, count)
        record[f"{name}.accuracy"] = correct / max(1.0, count)
        record["loss"] += record[f"{name}.loss"]
    return record
