"""The order of an n-gram model, and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import (
    LARGEST_SIZES,
    OutOfRange,
    above,
    at_least,
    between,
)
from bertwright.config.run import EvaluatedRun, PassRun
from bertwright.errors import ConfigError

MOST_ORDER, MOST_NGRAMS = 100, 10**12


@dataclass(frozen=True)
class NgramConfig:
    """The order and the sizes of an n-gram model."""

    vocab_size: int = 30000
    """V, the number of entries of the vocabulary."""
    order: int = 5
    """n, the order of the longest n-grams. A token is predicted from the n - 1 tokens before it."""
    ngrams: tuple[int, ...] = ()
    """The number of n-grams of each order from 2 to n; empty before they are counted."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_ORDER, "order")
        if len(self.ngrams) > self.order - 1 or any(not 0 <= n <= MOST_NGRAMS for n in self.ngrams):
            counts = f"numbers from 0 to {MOST_NGRAMS:,}, of the orders 2 to {self.order}"
            raise OutOfRange(self, "ngrams", counts)


PRESETS = {"ngram": NgramConfig()}
"""The only preset."""


@dataclass(frozen=True)
class NgramRun(PassRun, EvaluatedRun):
    """A run of an n-gram model, which counts the text once."""

    epochs: float = 1.0
    """Number of passes over the text: always one, in which it is counted."""
    smoothing: Literal["kneser-ney", "add-k"] = "kneser-ney"
    """Interpolated modified Kneser-Ney, or add-k, which adds a constant to every count."""
    k: float = 0.01
    """The constant that add-k adds to every count."""
    prune: tuple[int, ...] = ()
    """Pruning threshold for each order from 1 to n: n-grams that occur at most this often are left
    out. The last number also holds for higher orders. `0 0 1` leaves out n-grams of order 3 and
    above that occur once.
    """
    memory_mb: int = 512
    """Megabytes of memory for counts; beyond that, they are sorted and written to disk, into
    `out`.
    """
    architecture: NgramConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "k")
        at_least(self, 1, "memory_mb")
        if self.epochs != 1:
            raise ConfigError(f"epochs is {self.epochs:g}; a text is counted once: leave it out")
        if self.init is not None:
            raise ConfigError("--init is set, but counts begin with none: leave it out")
        if self.prune and (self.prune[0] or list(self.prune) != sorted(self.prune)):
            raise OutOfRange(self, "prune", "0 first, as words stay, then numbers that never fall")
