"""Make the batches of any step of any epoch for any rank, without the steps before it.

The instances of an epoch have an order, in which their tokens are counted. The epoch has S steps,
where S is its number of tokens divided by `batch_tokens`, rounded up. Its tokens are divided into S
equal intervals, and step s takes the instances that end in the s-th interval. So steps are equal to
within a sequence, and no instance is left out. The instances of a step are sorted by length and
dealt to the ranks in turn. Each rank splits its share into equal micro-batches of about
`micro_batch_tokens` tokens, to within a sequence or two. No position is stored here: a step is a
function of (instances, epoch, step), so a resumed run asks for its next step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from bertwright.arrays import Int64s
from bertwright.data.instances import Instances
from bertwright.errors import ConfigError
from bertwright.nn.batch import Batch

B = TypeVar("B", bound=Batch)


class EpochLoader(Generic[B]):
    """Makes the batches of instances for a given epoch and step."""

    def __init__(
        self,
        instances: Instances[B],
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Initialize the loader of one rank."""
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank is {rank}; expected 0 to {world_size - 1}")
        self.instances = instances
        self.rank = rank
        self.world_size = world_size
        self._epoch: Callable[[int], tuple[Int64s, Int64s]] = lru_cache(maxsize=2)(self._measure)

    def tokens_in_epoch(self, epoch: int) -> int:
        """Return the number of tokens of an epoch over all ranks, including special tokens."""
        return int(self._epoch(epoch)[1][-1])

    def sequences_in_epoch(self, epoch: int) -> int:
        """Return the number of sequences of an epoch over all ranks."""
        return len(self._epoch(epoch)[0])

    def steps_in_epoch(self, epoch: int, batch_tokens: int) -> int:
        """Return the number of steps of an epoch, at least 1. A step has about `batch_tokens`
        tokens over all ranks.
        """
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens}; expected 1 or more")
        return max(1, -(-self.tokens_in_epoch(epoch) // batch_tokens))

    def positions(self, epoch: int, step_in_epoch: int, batch_tokens: int) -> Int64s:
        """Return the positions in the epoch of a step's instances, over all ranks."""
        steps = self.steps_in_epoch(epoch, batch_tokens)
        if not 0 <= step_in_epoch < steps:
            raise IndexError(f"step {step_in_epoch} is not in an epoch of {steps} steps")
        ends = self._epoch(epoch)[1]
        total = int(ends[-1])
        # A sequence belongs to the step in whose interval it ends. Ends lie in (0, total], so every
        # sequence has a step.
        edges = [total * step_in_epoch // steps, total * (step_in_epoch + 1) // steps]
        first, last = np.searchsorted(ends, edges, side="right")
        return np.arange(first, last)

    def step(
        self, epoch: int, step_in_epoch: int, batch_tokens: int, micro_batch_tokens: int
    ) -> list[B]:
        """Return this rank's micro-batches of one step, which may be none if the step has fewer
        sequences than there are ranks.
        """
        longest = self.instances.longest
        if micro_batch_tokens < longest:
            raise ConfigError(
                f"micro_batch_tokens is {micro_batch_tokens}; expected at least the sequence "
                f"length, {longest}"
            )
        lengths = self._epoch(epoch)[0]
        positions = self.positions(epoch, step_in_epoch, batch_tokens)
        order = np.argsort(-lengths[positions], kind="stable")
        own = positions[order][self.rank :: self.world_size]
        return [
            self.instances.batch(epoch, rows)
            for rows in _split(own, lengths[own], micro_batch_tokens, longest)
        ]

    def _measure(self, epoch: int) -> tuple[Int64s, Int64s]:
        """Return the lengths of an epoch's sequences, and the number of tokens up to each one's
        end.
        """
        lengths = self.instances.lengths(epoch)
        return lengths, np.cumsum(lengths)


def _split(positions: Int64s, lengths: Int64s, micro_tokens: int, spare: int) -> list[Int64s]:
    """Split positions, in order, into equal parts of about `micro_tokens` tokens.

    The shares of a step differ by a sequence or two, so up to `spare` further tokens do not make
    another part. Otherwise a step that was meant to be one micro-batch would often have a tiny
    second one.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    parts = max(1, -(-(total - spare) // micro_tokens))
    edges = [total * part // parts for part in range(parts + 1)]
    cuts = np.searchsorted(ends, edges, side="right")
    return [positions[a:b] for a, b in pairwise(cuts) if b > a]
