"""The sizes of the Transformer (Vaswani et al. 2017, table 3), and the keys of its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.ranges import (
    below_one,
    transformer,
)
from bertwright.config.run import ScheduleConfig
from bertwright.config.translation import TranslationRun, inverse_sqrt


@dataclass(frozen=True)
class TransformerConfig:
    """The architecture (Vaswani et al. 2017, table 3). The encoder and the decoder have L layers
    each.
    """

    vocab_size: int = 37000
    """V, the number of entries of the vocabulary of both languages."""
    hidden_size: int = 512
    """H, the width of a token's vector."""
    num_hidden_layers: int = 6
    """L, the number of layers of the encoder, and also of the decoder."""
    num_attention_heads: int = 8
    """A, the number of attention heads per layer."""
    intermediate_size: int = 2048
    """F, the width inside the feed-forward layer."""
    hidden_act: Literal["relu", "gelu", "gelu_tanh"] = "relu"
    """Activation of the feed-forward layer."""
    norm: Literal["post", "pre"] = "post"
    """Position of layer normalization: `post`, after each residual sum, as published; `pre`, before
    each part, and once more after the last layer.
    """
    max_position_embeddings: int = 1024
    """Maximum length of a source and of a target, in tokens."""
    hidden_dropout_prob: float = 0.1
    """Dropout after embeddings, attention and feed-forward layers."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of attention probabilities. Attention is slower if it is above 0."""
    label_smoothing: float = 0.1
    """Label smoothing: the fraction of the target distribution that is uniform over the vocabulary,
    in training.
    """
    layer_norm_eps: float = 1e-5
    """Epsilon of layer normalization, which is added to the variance."""

    def __post_init__(self) -> None:
        transformer(self)
        below_one(self, "label_smoothing")


PRESETS = {
    "transformer-small": TransformerConfig(
        hidden_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=1024,
        hidden_dropout_prob=0.2,
    ),
    "transformer-base": TransformerConfig(),
    "transformer-big": TransformerConfig(
        hidden_size=1024,
        num_attention_heads=16,
        intermediate_size=4096,
        hidden_dropout_prob=0.3,
    ),
}
"""`transformer-base` and `transformer-big` are the published sizes; `transformer-small` is for
about ten thousand pairs.
"""


@dataclass(frozen=True)
class TransformerRun(TranslationRun):
    """A run of the encoder-decoder Transformer."""

    schedule: ScheduleConfig = field(default_factory=inverse_sqrt)
    """The learning rate over time."""
    architecture: TransformerConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def positions_of(self, model: TransformerConfig) -> int:
        return model.max_position_embeddings
