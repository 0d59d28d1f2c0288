"""The steps of an epoch over labelled data: examples in a new order each time, several tasks mixed.

A step holds `batch_size` examples of one task, cut into micro-batches by tokens; with several tasks
their steps are shuffled into one another (Liu et al. 2019, MT-DNN, algorithm 1), each as often as
it is large, times its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.data.randomness import make_key, permutation
from bertwright.errors import DataError
from bertwright.objectives.labelled import LabelledBatch
from bertwright.tasks.batch import make_batch, micro_batches
from bertwright.tasks.instances import Instance
from bertwright.train.distributed import Ranks
from bertwright.train.state import Place


class EpochBatches:
    """Where the loop gets the steps of labelled tasks from."""

    def __init__(
        self,
        tasks: Sequence[tuple[str, TaskConfig, Sequence[Instance], float]],
        batch_size: int,
        micro_tokens: int,
        seed: int,
        ranks: Ranks,
    ) -> None:
        """`tasks`: name, task, instances to learn from, and weight of each."""
        self._tasks = list(tasks)
        self._batch_size = batch_size
        self._micro_tokens = micro_tokens
        self._seed = seed
        self._ranks = ranks
        self._order: tuple[int, list[tuple[int, np.ndarray]]] = (-1, [])

    @property
    def steps_in_epoch(self) -> int:
        """Steps of one pass over all tasks."""
        return len(self._epoch(0))

    def step(self, place: Place, done: float) -> tuple[list[LabelledBatch], Place]:
        """This rank's micro-batches of a step, and the next place."""
        steps = self._epoch(place.epoch)
        number, rows = steps[place.step]
        name, task, instances, _ = self._tasks[number]
        own = rows[self._ranks.rank :: self._ranks.world_size].tolist()
        batches = [
            make_batch(name, task, instances, part, str(self._ranks.device))
            for part in micro_batches(instances, own, self._micro_tokens)
        ]
        if place.step + 1 < len(steps):
            return batches, replace(place, step=place.step + 1)
        return batches, replace(place, epoch=place.epoch + 1, step=0)

    def _epoch(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """The steps of an epoch: a task's number and the instances of it."""
        if self._order[0] != epoch:
            steps = []
            for number, (name, _, instances, weight) in enumerate(self._tasks):
                for rows in self._passes(name, len(instances), weight, epoch):
                    steps += [(number, part) for part in self._parts(name, instances, rows)]
            if len(self._tasks) > 1:
                mixed = permutation(make_key("tasks", self._seed, epoch), len(steps))
                steps = [steps[place] for place in mixed]
            self._order = epoch, steps
        return self._order[1]

    def _parts(
        self, name: str, instances: Sequence[Instance], rows: np.ndarray
    ) -> list[np.ndarray]:
        """A pass in steps of at most `batch_size` examples (or of an instance a rank); what is left
        in the end for too few ranks joins the last."""
        least = self._ranks.world_size
        starts, held = [0], 0
        for place, row in enumerate(rows.tolist()):
            held += len(instances[row].counts)
            if held > self._batch_size and place - starts[-1] >= least:
                starts.append(place)
                held = len(instances[row].counts)
        if len(rows) - starts[-1] < least:
            starts.pop()
        if not starts:
            raise DataError(
                f"{name}: {len(rows)} texts or documents to learn from for {least} processes; "
                f"expected one each at least: start fewer"
            )
        return np.split(rows, starts[1:])

    def _passes(self, name: str, count: int, weight: float, epoch: int) -> list[np.ndarray]:
        """A task's instances in random order, `weight` times over."""
        passes: list[np.ndarray] = []
        while weight > 0:
            key = make_key(f"examples of {name}", self._seed, epoch, len(passes))
            rows = permutation(key, count)
            passes.append(rows[: max(1, round(min(1.0, weight) * count))])
            weight -= 1
        return passes
