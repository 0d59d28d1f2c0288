"""What runs of language models have: windows of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.ranges import (
    MOST_TOKENS,
    OutOfRange,
    at_least,
    between,
)
from bertwright.config.run import RunConfig


@dataclass(frozen=True)
class LanguageModelRun(RunConfig):
    """A run over token streams; a system adds its `architecture` and its presets."""

    use = 'generate --model {run} "A text"'

    # of built-in types alone: cyclopts reads these annotations in a subclass's file
    sequence_length: int = 128
    """Maximum tokens of a window, the tokens for begin and end included."""
    burn_in: int = 0
    """Tokens of a window that repeat the one before and are read, not predicted."""

    def __post_init__(self) -> None:
        between(self, 2, MOST_TOKENS, "sequence_length")
        at_least(self, 0, "burn_in")
        if self.burn_in >= self.sequence_length - 1:
            raise OutOfRange(self, "burn_in", f"at most {self.sequence_length - 2}")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest window."""
        return self.sequence_length
