"""The training sequences of a system: the instances of one split of a built corpus, epoch by epoch.

Instances are planned with NumPy arrays; a batch consists of tensors on the host (`nn/batch.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np

from bertwright.arrays import Int64s
from bertwright.data.checkup import Checkup, note_lengths
from bertwright.data.randomness import make_key, permutation
from bertwright.nn.batch import Batch

B = TypeVar("B", bound=Batch, covariant=True)


class Instances(Protocol[B]):
    """Training sequences, each a function of (data, configuration, seed, epoch, position)."""

    @property
    def longest(self) -> int:
        """The maximum length of a sequence, in tokens."""

    def lengths(self, epoch: int) -> Int64s:
        """Return the number of tokens of every instance of an epoch, in the epoch's order, `[I]`.

        Raises:
            DataError: the split gives no instances.
        """

    def batch(self, epoch: int, positions: Int64s) -> B:
        """Return the batch, on the host, of the instances at these positions of an epoch's order,
        longest first."""

    def check(self, checkup: Checkup) -> None:
        """Add findings to `checkup` about problems of the instances of the first epoch."""


class Shuffled:
    """Instances that are in a different random order in every epoch."""

    def __init__(self, lengths: Int64s, longest: int, seed: int) -> None:
        """Initialize with the number of tokens of every instance, `[I]`, the maximum of these, and
        the seed of the order.
        """
        self.longest, self.seed = longest, seed
        self.unordered = lengths
        self._order: Callable[[int], Int64s] = lru_cache(maxsize=2)(self._shuffle)

    def lengths(self, epoch: int) -> Int64s:
        return self.unordered[self._order(epoch)]

    def rows(self, epoch: int, positions: Int64s) -> Int64s:
        """Return the numbers of the instances at these positions of an epoch's order, longest
        first."""
        rows = self._order(epoch)[positions]
        return rows[np.argsort(-self.unordered[rows], kind="stable")]

    def check(self, checkup: Checkup) -> None:
        note_lengths(checkup, self.unordered, self.longest)

    def _shuffle(self, epoch: int) -> Int64s:
        return permutation(make_key("order", self.seed, epoch), len(self.unordered))
