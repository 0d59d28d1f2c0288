"""The configuration that all runs over parallel text share, with the Adam of Vaswani et al. 2017.

Annotations are types in this file, not text, because cyclopts evaluates those that a subclass
inherits in the subclass's file.
"""

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.ranges import (
    MOST_TOKENS,
    between,
)
from bertwright.config.run import OptimizerConfig, RunConfig, ScheduleConfig


@dataclass(frozen=True)
class AdamConfig(OptimizerConfig):
    """Adam with the values of Vaswani et al. 2017 (section 5.3); see `OptimizerConfig`."""

    matrices: Literal["adamw", "muon"] = "adamw"
    """The optimizer of linear layers' weights; embeddings, norms and biases use AdamW."""
    beta2: float = 0.98
    """Decay of the running mean of squared gradients."""
    eps: float = 1e-9
    """Adam's epsilon, which is added to the root of the mean squared gradient."""
    weight_decay: float = 0.0
    """Decoupled weight decay of matrices; norms and biases have none."""


@dataclass(frozen=True)
class InverseSqrtConfig(ScheduleConfig):
    """The schedule of Vaswani et al. 2017 (section 5.3); see `ScheduleConfig`."""

    curve: Literal["linear", "slanted", "inverse-sqrt"] = "inverse-sqrt"
    """Shape of the learning rate. linear: rises from 0 and falls to 0; slanted: ULMFiT's triangle,
    from 1/32 of the peak and back; inverse-sqrt: falls as 1 / sqrt(step) after warm-up.
    """
    warmup: float = 0.1
    """Fraction of the run in which the learning rate rises to its peak."""


@dataclass(frozen=True)
class TranslationRun(RunConfig):
    """A run over parallel text."""

    sequence_length: int = 128
    """Maximum tokens of a source and of a target, including the begin and end tokens; longer pairs
    are left out.
    """
    optimizer: AdamConfig = field(default_factory=AdamConfig)
    """The optimizer."""

    def __post_init__(self) -> None:
        between(self, 3, MOST_TOKENS, "sequence_length")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """The number of tokens of the longest pair."""
        return 2 * self.sequence_length

    @property
    def positions_needed(self) -> int:
        """The number of tokens of the longest source or target."""
        return self.sequence_length
