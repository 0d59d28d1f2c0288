"""The sizes of RoBERTa, XLM-R and CamemBERT, and the keys of RoBERTa's runs.

Liu et al. 2019, RoBERTa: A Robustly Optimized BERT Pretraining Approach; Conneau et al. 2020
(XLM-R) and Martin et al. 2020 (CamemBERT), which are the same model over other vocabularies. The
names of a model's fields are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from bertwright.config.ranges import between
from bertwright.models.bert.config import PRESETS as BERT_PRESETS
from bertwright.models.bert.config import BertConfig, BertRun, SingleTextConfig


@dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """The architecture of a RoBERTa; the defaults are RoBERTa Base."""

    output_act: ClassVar[str | None] = "gelu"
    """The exact GELU, whatever the activation of the layers."""

    vocab_size: int = 50265
    """V, the number of entries of the vocabulary."""
    max_position_embeddings: int = 514
    """Number of rows of the position table: the maximum length of a sequence plus
    `first_position`."""
    type_vocab_size: int = 1
    """Number of segments: 1, as two `</s>` separate the texts of a pair."""
    layer_norm_eps: float = 1e-5
    """Epsilon of layer normalization, which is added to the variance."""
    first_position: int = 2
    """Row of the position table for the first token: one more than the id of the padding token, as
    published. The rows before it are not used."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 0, self.max_position_embeddings - 1, "first_position")

    @property
    def max_length(self) -> int:
        """The maximum length of a sequence, in tokens."""
        return self.max_position_embeddings - self.first_position


@dataclass(frozen=True)
class XlmRobertaConfig(RobertaConfig):
    """The architecture of an XLM-R; the defaults are XLM-R Base."""

    vocab_size: int = 250002
    """V, the number of entries of the vocabulary."""


@dataclass(frozen=True)
class CamembertConfig(RobertaConfig):
    """The architecture of a CamemBERT; the defaults are CamemBERT Base."""

    vocab_size: int = 32005
    """V, the number of entries of the vocabulary."""


PRESETS = {
    name.replace("bert", "roberta", 1): RobertaConfig(
        hidden_size=bert.hidden_size,
        num_hidden_layers=bert.num_hidden_layers,
        num_attention_heads=bert.num_attention_heads,
        intermediate_size=bert.intermediate_size,
    )
    for name, bert in BERT_PRESETS.items()
}
"""BERT's sizes; base and large are published."""


@dataclass(frozen=True)
class RobertaRun(BertRun):
    """A run of a RoBERTa: BERT's, by masked LM alone."""

    instances: SingleTextConfig = field(default_factory=SingleTextConfig)
    """What a training sequence is made of."""
    architecture: RobertaConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
