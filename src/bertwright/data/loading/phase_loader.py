"""Make the batches of a pre-training run, from one phase of instances or several in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from bertwright.data.loading.ahead import Ahead
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.loading.phases import DataPosition, Phase
from bertwright.errors import ConfigError
from bertwright.nn.batch import Batch


class PhaseLoader:
    """Makes the micro-batches of each step of a run on the device."""

    def __init__(
        self,
        phases: Sequence[Phase],
        micro_tokens: int,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Initialize the loader of one process.

        Args:
            phases: the phases in order; the first begins at 0.
            micro_tokens: the number of tokens of a micro-batch, at least the length of the longest
                sequence; a smaller number is raised to it.
            device: the device of the batches.
            rank: the number of this process.
            world_size: the number of processes that share each step.
        """
        self._device = device
        self._world_size = world_size
        self._phases = list(phases)
        self._micro_tokens = max(micro_tokens, *(phase.instances.longest for phase in phases))
        self.loaders: list[EpochLoader[Batch]] = [
            EpochLoader(phase.instances, rank, world_size) for phase in phases
        ]
        self._ahead = Ahead(self._make, device.type == "cuda")
        self.loaders[0].tokens_in_epoch(0)  # fails early if the data gives no instances

    def step(self, at: DataPosition, done: float) -> tuple[list[Batch], DataPosition]:
        """Return the micro-batches at a data position, and the next data position.

        A step with fewer sequences than processes is skipped. On a GPU a thread makes the batches
        of the following step.

        Args:
            at: the position.
            done: the fraction of the budget that is used.
        """
        following = at.phase + 1
        if following < len(self._phases) and done >= self._phases[following].begin:
            at = DataPosition(phase=following)
        return self._ahead(at)

    def _make(self, at: DataPosition) -> tuple[list[Batch], DataPosition]:
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
        """Return the number of steps in a number of epochs of the first phase."""
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
