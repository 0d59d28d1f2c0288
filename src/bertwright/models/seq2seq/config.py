"""The sizes of seq2seq with attention, and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_LAYERS,
    MOST_WIDTH,
    below_one,
    between,
)
from bertwright.config.translation import TranslationRun
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The architecture. The encoder and the decoder have L layers each."""

    vocab_size: int = 30000
    """V, the number of entries of the vocabulary of both languages."""
    embedding_size: int = 512
    """E, the width of a token's vector in the source, the target and the output."""
    hidden_size: int = 1024
    """H, the width of the LSTM states; each direction of the encoder has half of it."""
    num_hidden_layers: int = 2
    """L, the number of LSTM layers of the encoder, and also of the decoder."""
    attention: Literal["additive", "multiplicative", "none"] = "multiplicative"
    """How the decoder attends to the source: `additive` (Bahdanau et al. 2014), `multiplicative`
    (Luong et al. 2015), or no attention.
    """
    input_feeding: bool = True
    """Input feeding: whether the decoder reads, with each token, the vector that predicted it."""
    dropout: float = 0.2
    """Dropout on token vectors, between layers and before the output."""
    label_smoothing: float = 0.1
    """Label smoothing: the fraction of the target distribution that is uniform over the vocabulary,
    in training.
    """
    fixed_source: bool = False
    """Whether the source has its own token vectors, which are not trained."""

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "embedding_size", "hidden_size")
        between(self, 1, MOST_LAYERS, "num_hidden_layers")
        below_one(self, "dropout", "label_smoothing")
        if self.hidden_size % 2:
            raise ConfigError(f"hidden_size is {self.hidden_size}; expected an even number")


PRESETS = {
    "seq2seq-small": Seq2SeqConfig(embedding_size=256, hidden_size=384, num_hidden_layers=1),
    "seq2seq-base": Seq2SeqConfig(),
    "seq2seq-cove": Seq2SeqConfig(embedding_size=300, hidden_size=600),
}
"""The presets by name. `seq2seq-cove` has the encoder of McCann et al. 2017."""


@dataclass(frozen=True)
class Seq2SeqRun(TranslationRun):
    """The keys of a run of sequence to sequence with attention."""

    word_vectors: str | None = None
    """Run or file of word vectors to use for the words of the source; they are not trained (CoVe).
    The data needs a vocabulary of words.
    """
    architecture: Seq2SeqConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def sources(self) -> dict[str, str]:
        return {} if self.word_vectors is None else {"word_vectors": self.word_vectors}

    def model_config(self, vocab_size: int) -> Seq2SeqConfig:
        config: Seq2SeqConfig = super().model_config(vocab_size)
        return replace(config, fixed_source=self.word_vectors is not None)
