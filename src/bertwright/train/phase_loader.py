"""Load the steps of a pre-training run from one phase of instances, or several in sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from bertwright.data.epoch_loader import EpochLoader
from bertwright.data.phases import Phase
from bertwright.errors import ConfigError
from bertwright.train.ahead import Ahead, Made
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import micro_tokens
from bertwright.train.state import DataPosition


class PhaseLoader:
    """Provides the training loop with the steps of a run."""

    def __init__(self, phases: Sequence[Phase], tokens: int | None, ranks: Ranks) -> None:
        """Open the phases.

        Args:
            phases: the phases in order; the first begins at 0.
            tokens: the number of tokens in a micro-batch, which has at least one sequence; None: a
                number that suits the hardware.
            ranks: the processes that share each step.

        Raises:
            DataError: the data gives no instances.
        """
        on_gpu = ranks.device.type == "cuda"
        self._device: torch.device = ranks.device
        self._world_size = ranks.world_size
        self._phases = list(phases)
        longest = max(phase.instances.longest for phase in phases)
        self._micro_tokens = max(tokens or micro_tokens(ranks.device), longest)
        self.loaders: list[EpochLoader[Any]] = [
            EpochLoader(phase.instances, ranks.rank, ranks.world_size) for phase in phases
        ]
        self._ahead = Ahead(self._make, on_gpu)
        self.loaders[0].tokens_in_epoch(0)  # raises an error now if the data gives no instances

    def step(self, at: DataPosition, done: float) -> tuple[list[Any], DataPosition]:
        """Return the micro-batches at a data position, and the next position.

        `done` is the fraction of the budget that is used, which decides the phase. Steps with fewer
        sequences than ranks are skipped. On a GPU a thread prepares the following step.
        """
        following = at.phase + 1
        if following < len(self._phases) and done >= self._phases[following].begin:
            at = DataPosition(phase=following)
        return self._ahead(at)

    def _make(self, at: DataPosition) -> Made:
        loader, tokens = self.loaders[at.phase], self._phases[at.phase].tokens
        skipped = 0
        while len(loader.positions(at.epoch, at.step, tokens)) < self._world_size:
            at, skipped = self._next(at), skipped + 1
            if skipped > 2 * loader.steps_in_epoch(at.epoch, tokens):
                raise ConfigError(
                    f"a step of {tokens} tokens holds no sequence for each of {self._world_size} "
                    "processes; raise --batch.tokens"
                )
        batches = loader.step(at.epoch, at.step, tokens, self._micro_tokens)
        return [batch.to(self._device) for batch in batches], self._next(at)

    def steps_of_epochs(self, epochs: float) -> int:
        """Return the number of steps of some passes over the first phase's instances."""
        loader, tokens = self.loaders[0], self._phases[0].tokens
        whole = int(epochs)
        steps = sum(loader.steps_in_epoch(epoch, tokens) for epoch in range(whole))
        if epochs > whole:
            steps += round((epochs - whole) * loader.steps_in_epoch(whole, tokens))
        return max(1, steps)

    def _next(self, at: DataPosition) -> DataPosition:
        loader, tokens = self.loaders[at.phase], self._phases[at.phase].tokens
        if at.step + 1 < loader.steps_in_epoch(at.epoch, tokens):
            return replace(at, step=at.step + 1)
        return replace(at, epoch=at.epoch + 1, step=0)
