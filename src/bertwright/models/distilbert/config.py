"""The sizes of DistilBERT, and the keys of its runs.

Sanh et al. 2019, DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter. The
names of a model's fields are BERT's; `models/distilbert/huggingface.py` maps those of transformers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from bertwright.config.run import Changes
from bertwright.errors import ConfigError
from bertwright.models.bert.config import PRESETS as BERT_PRESETS
from bertwright.models.bert.config import BertConfig, BertRun, SingleTextConfig


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


PRESETS = {
    name.replace("bert", "distilbert", 1): DistilBertConfig(
        **{**asdict(bert), "type_vocab_size": 0, "num_hidden_layers": bert.num_hidden_layers // 2}
    )
    for name, bert in BERT_PRESETS.items()
}
"""BERT's sizes with half of its layers."""


@dataclass(frozen=True)
class DistilBertChanges(Changes):
    """The sizes of a DistilBERT that a run may change; no dropout unless the run sets it."""

    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    intermediate_size: int | None = None
    hidden_act: Literal["gelu"] | None = None
    hidden_dropout_prob: float | None = 0.0
    attention_probs_dropout_prob: float | None = 0.0
    max_position_embeddings: int | None = None


@dataclass(frozen=True)
class DistilBertRun(BertRun):
    """A run of a DistilBERT: BERT's, by masked LM alone; there is no teacher."""

    presets = PRESETS
    default_model = "distilbert-mini"

    instances: SingleTextConfig = field(default_factory=SingleTextConfig)
    """What a training sequence is made of."""
    architecture: DistilBertChanges = field(  # type: ignore[assignment]
        default_factory=DistilBertChanges
    )
    """Values of the model's configuration, by name; unset: those of the preset."""
