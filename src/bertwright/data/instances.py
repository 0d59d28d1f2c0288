"""What a system trains on: the instances of one split of a built corpus, epoch by epoch."""

from __future__ import annotations

from typing import Protocol, TypeVar

from bertwright.arrays import Int64s
from bertwright.data.batch import Batch

B = TypeVar("B", bound=Batch, covariant=True)


class Instances(Protocol[B]):
    """Training sequences, each a function of (data, configuration, seed, epoch, position)."""

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that there can be."""

    def lengths(self, epoch: int) -> Int64s:
        """`[I]` tokens of every instance of an epoch, in the epoch's order.

        Raises:
            DataError: the split gives no instances.
        """

    def batch(self, epoch: int, positions: Int64s) -> B:
        """A batch of the instances at these positions of an epoch's order, longest first."""
