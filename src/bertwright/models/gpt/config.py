"""The sizes of GPT and GPT-2, and the keys of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.ranges import transformer


@dataclass(frozen=True)
class GptConfig:
    """The architecture of a GPT. The defaults are the published ones."""

    vocab_size: int = 40478
    """V, the number of entries of the vocabulary."""
    hidden_size: int = 768
    """H, the width of a token's vector."""
    num_hidden_layers: int = 12
    """L, the number of layers."""
    num_attention_heads: int = 12
    """A, the number of attention heads per layer. Each is H / A wide; the feed-forward layer is 4 H
    wide.
    """
    hidden_act: Literal["gelu_tanh", "relu"] = "gelu_tanh"
    """Activation of the feed-forward layer: GELU by its tanh approximation, as published, or
    ReLU.
    """
    hidden_dropout_prob: float = 0.1
    """Dropout after embeddings, attention and feed-forward layers; published: 0.1."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of attention probabilities; published: 0.1. Attention is slower if it is above 0."""
    max_position_embeddings: int = 512
    """Maximum length of a sequence, in tokens."""
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution that initializes weights."""
    layer_norm_eps: float = 1e-5
    """Epsilon of layer normalization, which is added to the variance."""

    def __post_init__(self) -> None:
        transformer(self)

    @property
    def intermediate_size(self) -> int | None:
        """None: the feed-forward layer is 4 H wide."""
        return None


@dataclass(frozen=True)
class Gpt2Config(GptConfig):
    """The architecture of a GPT-2: a norm before each part, and one more after the last layer."""

    vocab_size: int = 50257
    """V, the number of entries of the vocabulary."""
    max_position_embeddings: int = 1024
    """Maximum length of a sequence, in tokens."""
    hidden_act: Literal["gelu", "gelu_tanh", "relu"] = "gelu_tanh"  # type: ignore[assignment]
    """Activation of the feed-forward layer: GELU, exact or by its tanh approximation (as
    published), or ReLU."""
    intermediate_size: int | None = None
    """F, the width inside the feed-forward layer; unset: 4 H, as published."""


def _sizes(kind: type[GptConfig], name: str) -> dict[str, Any]:
    sizes = {"-mini": (4, 256, 4), "-small": (4, 512, 8), "-medium": (8, 512, 8), "": (12, 768, 12)}
    return {
        name + each: kind(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads)
        for each, (layers, hidden, heads) in sizes.items()
    }


GPT_PRESETS, GPT2_PRESETS = _sizes(GptConfig, "gpt"), _sizes(Gpt2Config, "gpt2")


@dataclass(frozen=True)
class GptRun(LanguageModelRun):
    """A run of a GPT. The preset `gpt` is the published model."""

    sequence_length: int = 512
    """Maximum tokens of a window, including the begin and end tokens. Positions beyond it stay
    untrained.
    """
    architecture: GptConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def positions_of(self, model: GptConfig) -> int:
        return model.max_position_embeddings

    def trained_length(self, phase: int) -> int:
        return self.longest_sequence


@dataclass(frozen=True)
class Gpt2Run(LanguageModelRun):
    """A run of a GPT-2. The preset `gpt2` is the smallest published model."""

    sequence_length: int = 1024
    """Maximum tokens of a window, including the begin and end tokens. Positions beyond it stay
    untrained.
    """
    architecture: Gpt2Config | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def positions_of(self, model: Gpt2Config) -> int:
        return model.max_position_embeddings

    def trained_length(self, phase: int) -> int:
        return self.longest_sequence
