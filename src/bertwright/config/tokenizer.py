"""How a vocabulary is trained and how text is tokenized with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import OutOfRange, at_least


@dataclass(frozen=True)
class TokenizerConfig:
    """A vocabulary's size and rules."""

    vocab_size: int = 30522
    """Entries of the vocabulary, special tokens and alphabet included."""
    algorithm: Literal["wordpiece", "bpe", "word", "character"] = "wordpiece"
    """Wordpieces by likelihood, wordpieces by frequency, whole words by frequency, characters."""
    special_tokens: Literal["bert", "unknown"] = "bert"
    """`[PAD] [UNK] [CLS] [SEP] [MASK]`, or `[UNK]` alone, for systems that mask nothing."""
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
    """The fraction of all characters that the alphabet covers; the rarest become `[UNK]`."""
    limit_alphabet: int | None = None
    """Characters kept at most, whatever the coverage; none: no limit."""
    overshoot: float | None = None
    """Make so many times the entries wanted, drop the least useful; none: 1.5, for `bpe` 1."""
    max_words: int = 2_000_000
    """Distinct words kept while counting; above it the rarest are dropped (bounds the memory)."""
    workers: int = 0
    """Processes that count words; 0: one a processor. The result does not depend on it."""

    def __post_init__(self) -> None:
        at_least(self, 6, "vocab_size")
        at_least(self, 1, "max_word_characters", "min_frequency", "overshoot", "limit_alphabet")
        at_least(self, 1000, "max_words")
        at_least(self, 0, "workers")
        if not 0 < self.character_coverage <= 1:
            raise OutOfRange(self, "character_coverage", "above 0 and up to 1")
