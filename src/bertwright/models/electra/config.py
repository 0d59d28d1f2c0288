"""The sizes of ELECTRA, and the keys of its runs.

Clark, Luong, Le and Manning 2020, ELECTRA: Pre-training Text Encoders as Discriminators Rather Than
Generators, section 3 and appendix A. The names of a model's fields are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from bertwright.config.ranges import MOST_WIDTH, between
from bertwright.errors import ConfigError
from bertwright.models.bert.config import (
    BertConfig,
    MaskedRun,
    MaskingConfig,
    SingleTextConfig,
)


@dataclass(frozen=True)
class ElectraConfig(BertConfig):
    """The architecture of an ELECTRA; the defaults are ELECTRA Small."""

    output_act: ClassVar[str | None] = "gelu"
    """The exact GELU, whatever the activation of the layers."""

    hidden_size: int = 256
    """H, the width of a token's vector."""
    num_attention_heads: int = 4
    """A, the number of attention heads per layer, each H / A wide."""
    intermediate_size: int = 1024
    """F, the width inside the feed-forward layer."""
    embedding_size: int = 128
    """E, the width of the embeddings, which a linear layer projects to H if they differ."""
    generator_hidden_size: int = 0
    """Width of the layers of the generator, which is used only in pre-training; 0: there is none,
    as in published folders."""
    generator_attention_heads: int = 1
    """Number of attention heads per layer of the generator."""
    generator_intermediate_size: int = 1024
    """Width inside the generator's feed-forward layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_WIDTH, "embedding_size", "generator_intermediate_size")
        between(self, 0, MOST_WIDTH, "generator_hidden_size")
        between(self, 1, MOST_WIDTH, "generator_attention_heads")
        if self.generator_hidden_size % self.generator_attention_heads:
            raise ConfigError(
                f"generator_hidden_size is {self.generator_hidden_size}; expected a multiple of "
                f"generator_attention_heads, which is {self.generator_attention_heads}"
            )


def _preset(layers: int, hidden: int, heads: int, embedding: int | None = None) -> ElectraConfig:
    """Return a discriminator with a generator a quarter as wide."""
    return ElectraConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        embedding_size=embedding or hidden,
        generator_hidden_size=hidden // 4,
        generator_attention_heads=max(1, heads // 4),
        generator_intermediate_size=hidden,
    )


PRESETS = {
    "electra-tiny": _preset(2, 128, 2),
    "electra-mini": _preset(4, 256, 4),
    "electra-small": _preset(12, 256, 4, 128),
    "electra-base": _preset(12, 768, 12),
}
"""Tiny and mini have the sizes of the BERTs of those names, small and base those of the paper."""


@dataclass(frozen=True)
class ElectraRun(MaskedRun):
    """A run of an ELECTRA, by replaced-token detection."""

    instances: SingleTextConfig = field(default_factory=SingleTextConfig)
    """What a training sequence is made of."""
    masking: MaskingConfig = field(
        default_factory=partial(MaskingConfig, mask_fraction=1.0, random_fraction=0.0)
    )
    """Which tokens the generator predicts; published: 15%, all of which are replaced by [MASK]."""
    architecture: ElectraConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        new = self.architecture if self.sized_by is None else None
        if new is not None and new.generator_hidden_size == 0:
            raise ConfigError("architecture.generator_hidden_size is 0; expected 1 or more")
