"""The sizes of MPNet.

Song et al. 2020, MPNet: Masked and Permuted Pre-training for Language Understanding. The names of a
model's fields are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bertwright.config.ranges import at_least
from bertwright.errors import ConfigError
from bertwright.models.bert.config import BertConfig


@dataclass(frozen=True)
class MpnetConfig(BertConfig):
    """The architecture of an MPNet; the defaults are MPNet Base."""

    output_act: ClassVar[str | None] = "gelu"
    """The exact GELU, whatever the activation of the layers."""
    first_position: ClassVar[int] = 2
    """Row of the position table for the first token; the rows before it are of padding."""

    vocab_size: int = 30527
    """V, the number of entries of the vocabulary."""
    max_position_embeddings: int = 514
    """Number of rows of the position table: the maximum length of a sequence plus 2."""
    type_vocab_size: int = 0
    """Number of segments: 0, there are no segment vectors."""
    layer_norm_eps: float = 1e-5
    """Epsilon of layer normalization, which is added to the variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, self.first_position + 1, "max_position_embeddings")
        if self.type_vocab_size:
            raise ConfigError(
                f"type_vocab_size is {self.type_vocab_size}; an MPNet has no segments: leave it out"
            )

    @property
    def max_length(self) -> int:
        """The maximum length of a sequence, in tokens."""
        return self.max_position_embeddings - self.first_position
