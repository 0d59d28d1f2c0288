"""What a run of any language model has: the length of its windows.

Annotations of this file are of built-in types alone: cyclopts reads them in a subclass's file.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.ranges import OutOfRange, at_least
from bertwright.config.run import RunConfig


@dataclass(frozen=True)
class LanguageModelRun(RunConfig):
    """A run over token streams; a system adds its `architecture` and its presets."""

    system = "bertwright.recipes.language_models:LANGUAGE_MODEL"
    use = 'generate --model {run} "A text"'

    sequence_length: int = 128
    """Maximum tokens of a window, the tokens for begin and end included."""
    burn_in: int = 0
    """Tokens of a window that repeat the one before and are read, not predicted."""

    def __post_init__(self) -> None:
        at_least(self, 2, "sequence_length")
        at_least(self, 0, "burn_in")
        if self.burn_in >= self.sequence_length - 1:
            raise OutOfRange(self, "burn_in", f"at most {self.sequence_length - 2}")
        super().__post_init__()

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest window."""
        return self.sequence_length
