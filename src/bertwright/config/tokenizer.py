"""How a vocabulary is trained and how text is cut with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.errors import ConfigError


@dataclass(frozen=True)
class TokenizerConfig:
    """A vocabulary's size and rules."""

    vocab_size: int = 30522
    """Entries of the vocabulary, special tokens and alphabet included."""
    algorithm: Literal["wordpiece", "bpe", "word"] = "wordpiece"
    """Likelihood merges, frequency merges, or whole words by frequency."""
    lowercase: bool = True
    """Lower-case the text (an uncased vocabulary)."""
    strip_accents: bool | None = None
    """Drop accents; unset: as `lowercase`."""
    chinese_characters: bool = True
    """Make every Chinese character a word of its own."""
    min_frequency: int = 2
    """Leave out words seen fewer times than this."""
    limit_alphabet: int = 1000
    """Characters kept at most, the most frequent; the rest become `[UNK]`."""

    def __post_init__(self) -> None:
        if self.vocab_size < 6:
            raise ConfigError(f"vocab_size is {self.vocab_size}; expected 6 or more")
