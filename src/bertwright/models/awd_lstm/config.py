"""The sizes of an AWD-LSTM, and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.ranges import (
    LARGEST_SIZES,
    MOST_LAYERS,
    MOST_WIDTH,
    OutOfRange,
    at_least,
    below_one,
    between,
)
from bertwright.config.run import OptimizerConfig

_DROPPED = ("embedding", "input", "hidden", "output", "weight")


DROPOUTS = tuple(f"{name}_dropout" for name in _DROPPED)


@dataclass(frozen=True)
class AwdLstmConfig:
    """The architecture. The defaults are those of Merity et al. 2018 for WikiText-2."""

    vocab_size: int = 30000
    """V, the number of tokens that the model reads and predicts."""
    embedding_size: int = 400
    """H, the width of a token's vector and of the last layer, since the output weights are tied to
    the token vectors.
    """
    hidden_size: int = 1150
    """Width of the layers between the first and the last."""
    num_hidden_layers: int = 3
    """L, the number of LSTM layers."""
    embedding_dropout: float = 0.1
    """Embedding dropout: the fraction of the vocabulary whose vectors are zeroed for a whole
    micro-batch.
    """
    input_dropout: float = 0.65
    """Dropout of the first layer's input, with one mask per sequence."""
    hidden_dropout: float = 0.2
    """Dropout between layers, with one mask per sequence."""
    output_dropout: float = 0.4
    """Dropout of the last layer's output, with one mask per sequence."""
    weight_dropout: float = 0.5
    """DropConnect: the fraction of recurrent weights that are zeroed for a whole micro-batch."""
    dropout_scale: float = 1.0
    """Factor that multiplies all five dropouts; 0 switches them off."""
    activation_penalty: float = 2.0
    """Activation regularization (AR): weight of the mean square of the last layer's output after
    dropout.
    """
    temporal_penalty: float = 1.0
    """Temporal activation regularization (TAR): weight of the mean square of the change of that
    output from one token to the next.
    """

    def __post_init__(self) -> None:
        between(self, 1, LARGEST_SIZES["vocab_size"], "vocab_size")
        between(self, 1, MOST_WIDTH, "embedding_size", "hidden_size")
        between(self, 1, MOST_LAYERS, "num_hidden_layers")
        at_least(self, 0, "dropout_scale", "activation_penalty", "temporal_penalty")
        below_one(self, *DROPOUTS)
        most = max(getattr(self, name) for name in DROPOUTS)
        if self.dropout_scale * most >= 1:
            raise OutOfRange(self, "dropout_scale", f"less than {1 / most:g}: a dropout is {most}")

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the embeddings and of layers 1 to L."""
        between = (self.hidden_size,) * (self.num_hidden_layers - 1)
        return (self.embedding_size, *between, self.embedding_size)


_SMALL = AwdLstmConfig(embedding_size=192, hidden_size=384, dropout_scale=0.0)

PRESETS = {
    "awd-lstm-mini": replace(_SMALL, embedding_size=128, hidden_size=128),
    "awd-lstm-small": _SMALL,
    "awd-lstm": AwdLstmConfig(),
}
"""`awd-lstm` is the published one. The others have no dropout, because they see their text only
once.
"""


@dataclass(frozen=True)
class AwdLstmRun(LanguageModelRun):
    """A run of an AWD-LSTM."""

    optimizer: OptimizerConfig = field(default_factory=partial(OptimizerConfig, learning_rate=5e-3))
    """The optimizer, with a higher learning rate for LSTMs."""
    architecture: AwdLstmConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
