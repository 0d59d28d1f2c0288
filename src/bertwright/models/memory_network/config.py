"""The sizes of memory networks, and the keys of their runs."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.ranges import MOST_LAYERS, MOST_TOKENS, between
from bertwright.config.run import StepRun
from bertwright.models.word_vectors.config import WordVectorsConfig


@dataclass(frozen=True)
class MemoryNetworkConfig(WordVectorsConfig):
    """The architecture (Sukhbaatar et al. 2015)."""

    hidden_size: int = 40
    """H, the width of a sentence's vector."""
    hops: int = 3
    """Number of hops: how many times the memory is read."""
    memory_size: int = 50
    """Maximum number of sentences in memory: the newest of a story."""
    softmax: bool = True
    """Whether the weights of memories go through a softmax. Without one, the model is linear up to
    its answer: this is the paper's linear start, from which another run continues (`init`).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_LAYERS, "hops")
        between(self, 1, MOST_TOKENS, "memory_size")


PRESETS = {"memory-network": MemoryNetworkConfig()}
"""The only preset."""


@dataclass(frozen=True)
class MemoryNetworkRun(StepRun):
    """The keys of a run of a memory network. Its data are stories."""

    longest_story: int = 1024
    """Maximum number of tokens of a story."""
    architecture: MemoryNetworkConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_TOKENS, "longest_story")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """The number of tokens of the longest story."""
        return self.longest_story
