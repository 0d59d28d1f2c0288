"""The configuration of a vocabulary: how it is trained, and how text is tokenized with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import LARGEST_SIZES, OutOfRange, at_least, between
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class TokenizerConfig:
    """The size and the rules of a vocabulary."""

    vocab_size: int = 30522
    """Size of the vocabulary, including special tokens and the alphabet."""
    algorithm: Literal["wordpiece", "bpe", "byte-bpe", "word", "character"] = "wordpiece"
    """wordpiece (merges by likelihood), bpe (merges by frequency), byte-bpe (GPT-2's BPE of bytes),
    word (whole words), or character.
    """
    special_tokens: Literal["bert", "unknown"] | None = None
    """bert: `[PAD] [UNK] [CLS] [SEP] [MASK]`; unknown: only `[UNK]`, for systems that mask
    nothing. unset: bert; byte-bpe has only `<|endoftext|>`.
    """
    lowercase: bool = True
    """Lower-case the text (an uncased vocabulary)."""
    strip_accents: Literal["auto"] | bool | None = "auto"
    """Remove accents, and with them the vowel signs of other scripts; Korean syllables become
    letters. auto: as published for an uncased vocabulary, unless that changes over 1 % of the
    corpus's words and either makes two words the same or affects Devanagari, Thai, kana, Cyrillic,
    Korean or Vietnamese. none: as `lowercase`.
    """
    chinese_characters: bool = True
    """Treat every Chinese character as a word."""
    min_frequency: int = 2
    """Ignore words that occur fewer times than this."""
    character_coverage: float = 0.99995
    """Fraction of all characters that the alphabet covers; the rarest become `[UNK]`."""
    overshoot: float | None = None
    """Train a vocabulary this many times larger, then drop the least useful entries; unset: 1.5,
    for bpe 1.
    """
    max_words: int = 2_000_000
    """Maximum number of distinct words to hold while counting, which limits memory; if there are
    more, the rarest are dropped.
    """
    workers: int = 0
    """Number of processes that count words; 0: one per core. It does not affect the result."""
    cluster: str | None = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers count words instead;
    byte-bpe always reads its text in this process.
    """

    def __post_init__(self) -> None:
        between(self, 6, LARGEST_SIZES["vocab_size"], "vocab_size")
        if self.algorithm == "byte-bpe" and self.special_tokens is not None:
            raise ConfigError(
                f"--special-tokens {self.special_tokens} is for words; byte-bpe has one special "
                "token, <|endoftext|>. Leave it out, or pass --algorithm bpe"
            )
        at_least(self, 1, "min_frequency", "overshoot")
        at_least(self, 1000, "max_words")
        at_least(self, 0, "workers")
        if not 0 < self.character_coverage <= 1:
            raise OutOfRange(self, "character_coverage", "above 0 and up to 1")
