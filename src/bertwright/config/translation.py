"""The configuration that all runs over parallel text share, with the Adam of Vaswani et al. 2017.

Annotations are types in this file, not text, because cyclopts evaluates those that a subclass
inherits in the subclass's file.
"""

from dataclasses import dataclass, field
from functools import partial

from bertwright.config.ranges import (
    MOST_TOKENS,
    between,
)
from bertwright.config.run import OptimizerConfig, ScheduleConfig, StepRun

adam = partial(OptimizerConfig, matrices="adamw", beta2=0.98, eps=1e-9, weight_decay=0.0)
"""Adam with the values of Vaswani et al. 2017 (section 5.3)."""
inverse_sqrt = partial(ScheduleConfig, curve="inverse-sqrt", warmup=0.1)
"""The schedule of Vaswani et al. 2017 (section 5.3)."""


@dataclass(frozen=True)
class TranslationRun(StepRun):
    """A run over parallel text."""

    sequence_length: int = 128
    """Maximum tokens of a source and of a target, including the begin and end tokens; longer pairs
    are left out.
    """
    optimizer: OptimizerConfig = field(default_factory=adam)
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
