"""The sizes of MPNet, and the keys of its runs.

Song et al. 2020, MPNet: Masked and Permuted Pre-training for Language Understanding. The names of a
model's fields are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bertwright.errors import ConfigError
from bertwright.models.bert.config import PRESETS as BERT_PRESETS
from bertwright.models.roberta.config import RobertaConfig, RobertaRun


@dataclass(frozen=True)
class MpnetConfig(RobertaConfig):
    """The architecture of an MPNet; the defaults are MPNet Base."""

    vocab_size: int = 30527
    """V, the number of entries of the vocabulary."""
    type_vocab_size: int = 0
    """Number of segments: 0, there are no segment vectors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("type_vocab_size", 0), ("first_position", 2)):
            if getattr(self, name) != value:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; an MPNet has {value}: leave it out"
                )


def _preset(bert: Any) -> MpnetConfig:
    return MpnetConfig(
        hidden_size=bert.hidden_size,
        num_hidden_layers=bert.num_hidden_layers,
        num_attention_heads=bert.num_attention_heads,
        intermediate_size=bert.intermediate_size,
    )


PRESETS: dict[str, RobertaConfig] = {
    name.replace("bert", "mpnet", 1): _preset(bert) for name, bert in BERT_PRESETS.items()
}
"""BERT's sizes."""


@dataclass(frozen=True)
class MpnetRun(RobertaRun):
    """A run of an MPNet, by masked LM alone."""

    presets = PRESETS
    default_model = "mpnet-mini"
    ignored = ("start",)
