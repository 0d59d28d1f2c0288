"""Sizes of memory networks, and the keys of their runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertwright.config.ranges import MOST_LAYERS, MOST_TOKENS, between
from bertwright.config.run import Changes, RunConfig
from bertwright.models.word_vectors.config import WordVectorsConfig


@dataclass(frozen=True)
class MemoryNetworkConfig(WordVectorsConfig):
    """The architecture (Sukhbaatar et al. 2015)."""

    hidden_size: int = 40
    """H, width of a sentence's vector."""
    hops: int = 3
    """How often the memory is read."""
    memory_size: int = 50
    """Maximum sentences of a story, the newest."""
    softmax: bool = True
    """Whether the weights of memories go through a softmax; without one, the model is linear up to
    its answer: the paper's linear start is such a run, from which another goes on (init)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_LAYERS, "hops")
        between(self, 1, MOST_TOKENS, "memory_size")


PRESETS = {"memory-network": MemoryNetworkConfig()}
"""One size."""


@dataclass(frozen=True)
class MemoryNetworkChanges(Changes):
    """The sizes of a memory network that a run may change."""

    hidden_size: int | None = None
    hops: int | None = None
    memory_size: int | None = None
    softmax: bool | None = None


@dataclass(frozen=True)
class MemoryNetworkRun(RunConfig):
    """Everything that decides a run of a memory network; its data are stories."""

    presets = PRESETS
    default_model = "memory-network"
    whole_documents = True
    use = "answer --model {run} stories.txt"

    longest_story: int = 1024
    """Maximum tokens of a story."""
    architecture: MemoryNetworkChanges = field(default_factory=MemoryNetworkChanges)
    """Of the model's configuration, by the name there; unset: as its size has it."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_TOKENS, "longest_story")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest story."""
        return self.longest_story
