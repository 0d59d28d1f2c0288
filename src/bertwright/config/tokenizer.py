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
    """Pieces by likelihood, pieces by frequency, or whole words by frequency."""
    lowercase: bool = True
    """Lower-case the text (an uncased vocabulary)."""
    strip_accents: bool | None = None
    """Drop accents; none: as `lowercase`."""
    chinese_characters: bool = True
    """Make every Chinese character a word of its own."""
    max_word_characters: int = 100
    """A longer word is one `[UNK]`, in training and after."""
    min_frequency: int = 2
    """Leave out words seen fewer times than this."""
    character_coverage: float = 0.99995
    """The share of all characters that the alphabet covers; the rarest become `[UNK]`."""
    limit_alphabet: int | None = None
    """Characters kept at most, whatever the coverage; none: no limit."""
    overshoot: float | None = None
    """Learn this many times the pieces asked for, then drop the least useful; none: 1.5 for
    `wordpiece`, 1 (learn no more than needed) for `bpe`."""
    max_words: int = 2_000_000
    """Distinct words kept while counting; above it the rarest are dropped (bounds the memory)."""
    workers: int = 0
    """Processes that count words; 0: one a processor. The result does not depend on it."""

    def __post_init__(self) -> None:
        _at_least("vocab_size", self.vocab_size, 6)
        _at_least("max_word_characters", self.max_word_characters, 1)
        _at_least("min_frequency", self.min_frequency, 1)
        _at_least("max_words", self.max_words, 1000)
        _at_least("workers", self.workers, 0)
        if self.overshoot is not None:
            _at_least("overshoot", self.overshoot, 1)
        if not 0 < self.character_coverage <= 1:
            raise ConfigError(
                f"character_coverage is {self.character_coverage}; expected above 0 and up to 1"
            )
        if self.limit_alphabet is not None:
            _at_least("limit_alphabet", self.limit_alphabet, 1)


def _at_least(name: str, value: float, least: int) -> None:
    """Raise ConfigError below `least`."""
    if not value >= least:
        raise ConfigError(f"{name} is {value}; expected {least} or more")
