"""NNLM's own part of a run: its architecture and its presets."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertwright.config.ranges import at_least
from bertwright.config.run import OptimizerConfig
from bertwright.config.runs.language_model import LanguageModelRun


@dataclass(frozen=True)
class NnlmConfig:
    """The architecture."""

    vocab_size: int = 30000
    """V."""
    hidden_size: int = 100
    """H, numbers of a word vector and tanh units."""
    context_size: int = 4
    """C, previous tokens that are read; an n-gram model of order C + 1 reads as many."""
    direct_connections: bool = False
    """Whether the output layer reads the word vectors too (the paper's W)."""

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "hidden_size", "context_size")


@dataclass(frozen=True)
class NnlmOptimizer(OptimizerConfig):
    """A network of one layer learns at a higher rate; see `OptimizerConfig`."""

    learning_rate: float = 2e-2
    """The peak learning rate of AdamW, reached after warm-up."""


@dataclass(frozen=True)
class NnlmRun(
    LanguageModelRun,
    presets={"nnlm-small": NnlmConfig(), "nnlm-base": NnlmConfig(hidden_size=256)},
):
    """A run of an NNLM."""

    default_model = "nnlm-small"
    format = "bertwright.checkpoint.native.language_models:NNLM"

    optimizer: NnlmOptimizer = field(default_factory=NnlmOptimizer)
    """The optimizer."""
