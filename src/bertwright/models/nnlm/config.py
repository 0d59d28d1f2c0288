"""The sizes of an NNLM, and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_WIDTH,
    between,
)
from bertwright.config.run import OptimizerConfig


@dataclass(frozen=True)
class NnlmConfig:
    """The sizes of an NNLM."""

    vocab_size: int = 30000
    """V, the number of entries of the vocabulary."""
    hidden_size: int = 100
    """H, the width of a word vector and the number of tanh units."""
    context_size: int = 4
    """C, the number of previous tokens that the model reads, as an n-gram model of order C + 1
    does.
    """
    direct_connections: bool = False
    """Whether the output layer also reads the word vectors (the paper's W)."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "hidden_size")
        between(self, 1, 1_000, "context_size")


PRESETS = {"nnlm-small": NnlmConfig(), "nnlm-base": NnlmConfig(hidden_size=256)}
"""The presets by name."""


@dataclass(frozen=True)
class NnlmRun(LanguageModelRun):
    """A run of an NNLM."""

    optimizer: OptimizerConfig = field(default_factory=partial(OptimizerConfig, learning_rate=2e-2))
    """The optimizer, with a higher learning rate for a network of one layer."""
    architecture: NnlmConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
