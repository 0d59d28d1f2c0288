"""The configuration that all runs of language models share: windows of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.ranges import (
    MOST_TOKENS,
    OutOfRange,
    at_least,
    between,
)
from bertwright.config.run import StepRun


@dataclass(frozen=True)
class LanguageModelRun(StepRun):
    """A run over token streams; a system adds its `architecture` and its presets."""

    # only built-in types, because cyclopts reads these annotations in a subclass's file
    sequence_length: int = 128
    """Maximum tokens of a window, including the begin and end tokens."""
    burn_in: int = 0
    """Number of tokens at the beginning of a window that repeat the end of the one before; they are
    read as context but not predicted.
    """

    def __post_init__(self) -> None:
        between(self, 2, MOST_TOKENS, "sequence_length")
        at_least(self, 0, "burn_in")
        if self.burn_in >= self.sequence_length - 1:
            raise OutOfRange(self, "burn_in", f"at most {self.sequence_length - 2}")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """The number of tokens of the longest window."""
        return self.sequence_length
