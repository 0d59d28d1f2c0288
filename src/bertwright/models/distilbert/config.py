"""The sizes of DistilBERT.

Sanh et al. 2019, DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter. The
names of a model's fields are BERT's; `models/distilbert/model.py` maps those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.errors import ConfigError
from bertwright.models.bert.config import BertConfig


@dataclass(frozen=True)
class DistilBertConfig(BertConfig):
    """The architecture of a DistilBERT; the defaults are the published ones."""

    num_hidden_layers: int = 6
    """L, the number of layers."""
    hidden_act: Literal["gelu"] = "gelu"
    """Activation of the feed-forward layer: GELU, exact."""
    type_vocab_size: int = 0
    """Number of segments: 0, there are no segment vectors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_vocab_size:
            raise ConfigError(
                f"type_vocab_size is {self.type_vocab_size}; a DistilBERT has no segments: leave "
                "it out"
            )
