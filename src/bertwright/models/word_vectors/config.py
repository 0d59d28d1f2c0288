"""The architectures of word2vec, fastText and GloVe, and the keys of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from bertwright.config.ranges import (
    MOST_TOKENS,
    MOST_WIDTH,
    MOST_WORDS,
    above,
    at_least,
    below_one,
    between,
)
from bertwright.config.run import PassRun
from bertwright.errors import ConfigError

MOST_CHARACTERS, MOST_WORKERS = 100, 4_096


@dataclass(frozen=True)
class WordVectorsConfig:
    """A table of word vectors."""

    vocab_size: int = 30000
    """V, the number of words."""
    hidden_size: int = 100
    """H, the width of a word's vector."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_WORDS, "vocab_size")
        between(self, 1, MOST_WIDTH, "hidden_size")

    @property
    def averages_unknown(self) -> bool:
        """Whether the mean of a text includes unknown words."""
        return True

    @property
    def normalize(self) -> bool:
        """Whether the vector of a text is scaled to length 1 by default."""
        return False


@dataclass(frozen=True)
class Word2VecConfig(WordVectorsConfig):
    """What word2vec predicts in training, and with which loss (Mikolov et al. 2013a, b)."""

    algorithm: Literal["skip-gram", "cbow"] = "skip-gram"
    """Predict a word from each word of its context (skip-gram), or from the mean of all of them
    (CBOW).
    """
    loss: Literal["negative-sampling", "hierarchical-softmax"] = "negative-sampling"
    """Distinguish a word from sampled words (negative sampling), or predict the decisions on its
    path in a Huffman tree (hierarchical softmax).
    """

    @property
    def averages_unknown(self) -> bool:
        return False  # training left them out


@dataclass(frozen=True)
class FastTextConfig(Word2VecConfig):
    """fastText (Bojanowski et al. 2017): a word's vector is a mean that includes the vectors of its
    character n-grams.
    """

    buckets: int = 2_000_000
    """Number of rows of the table that n-grams are hashed into; each row is a vector of width H."""
    min_n: int = 3
    """Length of the shortest n-grams in characters, including `<` and `>` at the ends of a word."""
    max_n: int = 6
    """Length of the longest n-grams in characters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.buckets, self.min_n, self.max_n) == (0, 0, 0):
            return  # a file of fastText that was trained with -maxn 0, without n-grams
        between(self, 1, MOST_WORDS, "buckets")
        between(self, 1, MOST_CHARACTERS, "min_n")
        between(self, self.min_n, MOST_CHARACTERS, "max_n")


@dataclass(frozen=True)
class GloveConfig(WordVectorsConfig):
    """GloVe (Pennington et al. 2014)."""

    @property
    def averages_unknown(self) -> bool:
        return False  # training left them out


@dataclass(frozen=True)
class WordVectorsRun(PassRun):
    """The keys that the runs of all static word vectors share."""

    usual_epochs: ClassVar[float] = 5.0
    """The number of passes of a run whose length is not given."""

    epochs: float | None = None
    """Length of the run in passes over the data; unset: 5, for GloVe 15, or no limit with
    `minutes`."""
    minutes: float | None = None
    """Length of the run in minutes of wall-clock time; with `epochs` too, the shorter one holds."""
    window: int = 5
    """Maximum number of words on each side of a word that are its context."""
    workers: int = 0
    """Number of threads; 0: one per core. Threads update without locks (Recht et al. 2011), so
    only a run with one thread is reproducible bit for bit.
    """

    def __post_init__(self) -> None:
        between(self, 1, MOST_TOKENS, "window")
        between(self, 0, MOST_WORKERS, "workers")
        above(self, 0, "minutes")
        super().__post_init__()

    @property
    def most_minutes(self) -> float | None:
        return self.minutes

    def with_usual_length(self) -> Self:
        if self.epochs is self.minutes is None:
            return replace(self, epochs=self.usual_epochs)
        return self


WORD2VEC_PRESETS: Mapping[str, Word2VecConfig] = {
    "word2vec-skip-gram": Word2VecConfig(),  # the better one on small corpora
    "word2vec-cbow": Word2VecConfig(algorithm="cbow"),
}
"""The algorithms by name."""


@dataclass(frozen=True)
class Word2VecRun(WordVectorsRun):
    """A run of word2vec."""

    negative: int = 5
    """Number of sampled words per predicted word. A word is drawn in proportion to its count to the
    power of 0.75.
    """
    subsample: float = 1e-3
    """Subsampling threshold: occurrences of words whose fraction of the text is above it are left
    out at random; 0: none.
    """
    learning_rate: float | None = None
    """Learning rate at the start; it falls to zero over all passes. Unset: 0.025, for CBOW 0.05."""
    architecture: Word2VecConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_TOKENS, "negative")
        at_least(self, 0, "subsample")
        above(self, 0, "learning_rate")
        below_one(self, "subsample")
        super().__post_init__()


FASTTEXT_PRESETS = {
    "fasttext-skip-gram": FastTextConfig(),
    "fasttext-cbow": FastTextConfig(algorithm="cbow"),
}
"""The algorithms by name."""


@dataclass(frozen=True)
class FastTextRun(Word2VecRun):
    """A run of fastText."""

    subsample: float = 1e-4
    """Subsampling threshold: occurrences of words whose fraction of the text is above it are left
    out at random; 0: none.
    """
    learning_rate: float | None = 0.05
    """Learning rate at the start; it falls to zero over all passes."""
    architecture: FastTextConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        if self.architecture is not None and self.architecture.max_n == 0:
            raise ConfigError(
                "architecture.max_n is 0, and fastText without n-grams is word2vec: train it by "
                "--model word2vec-skip-gram"
            )
        super().__post_init__()


GLOVE_PRESETS = {"glove": GloveConfig()}
"""The only preset."""


@dataclass(frozen=True)
class GloveRun(WordVectorsRun):
    """A run of GloVe."""

    usual_epochs = 15.0

    window: int = 10
    """Maximum number of words on each side of a word that are counted as its context."""
    most: float = 10.0
    """x_max: pairs that occur at least this often have the weight 1. Published: 100, for billions
    of tokens.
    """
    power: float = 0.75
    """Exponent of the weight of rarer pairs, (x / x_max) to this power."""
    learning_rate: float = 0.05
    """Learning rate of AdaGrad."""
    memory_mb: int = 512
    """Approximate megabytes of memory for counted pairs; further pairs are written to disk, into
    `out`.
    """
    architecture: GloveConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        above(self, 0, "most", "power", "learning_rate")
        at_least(self, 1, "memory_mb")
        super().__post_init__()


@dataclass(frozen=True)
class StaticConfig(WordVectorsConfig):
    """A table of token vectors that was distilled from an encoder, as model2vec stores it."""

    normalize: bool = True
    """Whether the vector of a text is scaled to length 1 by default."""
    averages_unknown: bool = False
    """Whether the mean includes unknown tokens, as that of sentence-transformers does."""
