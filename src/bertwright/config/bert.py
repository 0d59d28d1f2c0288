"""BERT's sizes (Devlin et al. 2019, section 3; Turc et al. 2019 for the smaller ones).

Field names are those of the published `bert_config.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from bertwright.config.ranges import transformer
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT; the defaults are BERT Base."""

    causal: ClassVar[bool] = False
    """Whether a token sees those before it alone."""

    vocab_size: int = 30522
    """V, entries of the vocabulary."""
    hidden_size: int = 768
    """H, width of a token's vector."""
    num_hidden_layers: int = 12
    """L, layers."""
    num_attention_heads: int = 12
    """A, attention heads of a layer, each H / A wide."""
    intermediate_size: int = 3072
    """F, width inside the feed-forward layer."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    """GELU, exact (as published) or by its tanh approximation."""
    hidden_dropout_prob: float = 0.1
    """Dropout after embeddings, attention and feed-forward layers; published: 0.1."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of attention probabilities; published: 0.1; above 0, attention is slower."""
    max_position_embeddings: int = 512
    """Maximum length of a sequence, in tokens."""
    type_vocab_size: int = 2
    """Number of segments: A and B."""
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution that initializes weights."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in layer normalization."""

    def __post_init__(self) -> None:
        transformer(self)
        if self.hidden_act not in ("gelu", "gelu_tanh"):
            raise ConfigError(f"hidden_act is {self.hidden_act!r}; expected 'gelu' or 'gelu_tanh'")

    @property
    def head_size(self) -> int:
        """D, the width of an attention head."""
        return self.hidden_size // self.num_attention_heads


@dataclass(frozen=True)
class LeftToRightBertConfig(BertConfig):
    """The same encoder, left to right (table 5 of the paper, LTR & no NSP)."""

    causal: ClassVar[bool] = True
    """It does."""


def _preset(layers: int, hidden: int, heads: int) -> BertConfig:
    return replace(
        BertConfig(),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
    )


PRESETS = {
    "bert-tiny": _preset(2, 128, 2),
    "bert-mini": _preset(4, 256, 4),
    "bert-small": _preset(4, 512, 8),
    "bert-medium": _preset(8, 512, 8),
    "bert-base": _preset(12, 768, 12),
    "bert-large": _preset(24, 1024, 16),
}
"""The published sizes by name."""

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
"""What tells one preset from another."""
