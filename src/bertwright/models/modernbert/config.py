"""The sizes of ModernBERT, and the keys of its runs.

Warner et al. 2024, Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory
Efficient, and Long Context Finetuning and Inference. The names of a model's fields are BERT's where
it has the same; `models/modernbert/huggingface.py` maps those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from bertwright.config.ranges import MOST_LAYERS, MOST_TOKENS, above, between
from bertwright.errors import ConfigError
from bertwright.models.bert.config import (
    BertConfig,
    MaskedRun,
    MaskingConfig,
    SingleTextConfig,
    TokenInitializationConfig,
)


@dataclass(frozen=True)
class ModernBertConfig(BertConfig):
    """The architecture of a ModernBERT; the defaults are ModernBERT Base."""

    vocab_size: int = 50368
    """V, the number of entries of the vocabulary."""
    num_hidden_layers: int = 22
    """L, the number of layers."""
    intermediate_size: int = 1152
    """F, the width inside the feed-forward layer, whose first matrix has 2 F columns: GeGLU
    multiplies the GELU of one half by the other."""
    hidden_act: Literal["gelu"] = "gelu"
    """Activation of the feed-forward layer: GELU, exact."""
    hidden_dropout_prob: float = 0.0
    """Dropout after the embeddings and inside feed-forward layers; published: 0."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of attention probabilities and after attention; published: 0; above 0, attention is
    slower."""
    max_position_embeddings: int = 8192
    """Maximum length of a sequence, in tokens; positions have no weights."""
    type_vocab_size: int = 0
    """Number of segments: 0, there are no segment vectors."""
    layer_norm_eps: float = 1e-5
    """Epsilon of layer normalization, which is added to the variance."""
    global_attn_every_n_layers: int = 3
    """Attention is global in the first layer and in every n-th after it, and local in the others;
    1: it is global in all."""
    local_attention: int = 128
    """Width of the window of local attention, in tokens: a token attends to those at most half of
    it away."""
    global_rope_theta: float = 160000.0
    """Base (theta) of rotary positions in layers with global attention."""
    local_rope_theta: float = 10000.0
    """Base (theta) of rotary positions in layers with local attention."""
    classifier_pooling: Literal["cls", "mean"] = "cls"
    """What the pooler reads: the vector of [CLS], or the mean of all tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_vocab_size:
            raise ConfigError(
                f"type_vocab_size is {self.type_vocab_size}; a ModernBERT has no segments: leave "
                "it out"
            )
        between(self, 1, MOST_LAYERS, "global_attn_every_n_layers")
        between(self, 2, MOST_TOKENS, "local_attention")
        above(self, 0, "global_rope_theta", "local_rope_theta")
        if self.head_size % 2:
            raise ConfigError(
                f"an attention head is {self.head_size} wide (hidden_size / num_attention_heads); "
                "rotary positions turn pairs of numbers: expected an even width"
            )
        if self.classifier_pooling not in ("cls", "mean"):
            raise ConfigError(
                f"classifier_pooling is {self.classifier_pooling!r}; expected 'cls' or 'mean'"
            )

    def is_global(self, number: int) -> bool:
        """Return whether a layer, counted from 0, has global attention."""
        return number % self.global_attn_every_n_layers == 0


def _preset(layers: int, hidden: int, heads: int, intermediate: int) -> ModernBertConfig:
    return ModernBertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=intermediate,
    )


PRESETS = {
    "modernbert-tiny": _preset(3, 128, 2, 192),
    "modernbert-mini": _preset(6, 256, 4, 384),
    "modernbert-small": _preset(6, 512, 8, 768),
    "modernbert-medium": _preset(11, 512, 8, 768),
    "modernbert-base": _preset(22, 768, 12, 1152),
    "modernbert-large": _preset(28, 1024, 16, 2624),
}
"""Base and large are published. The others have the widths of the BERTs of those names and as many
weights in their layers, with the proportions of base: deeper, with narrower feed-forward layers."""


@dataclass(frozen=True)
class ModernBertRun(MaskedRun):
    """A run of a ModernBERT: BERT's, by masked LM alone."""

    start: TokenInitializationConfig = field(default_factory=TokenInitializationConfig)
    """How token vectors and the output bias are initialized."""
    instances: SingleTextConfig = field(default_factory=SingleTextConfig)
    """What a training sequence is made of."""
    masking: MaskingConfig = field(default_factory=partial(MaskingConfig, probability=0.3))
    """Which tokens are masked; published: 0.3 of them. Held-out text is masked at 0.15, as for
    every masked LM here."""
    architecture: ModernBertConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
