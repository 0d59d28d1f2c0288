"""The sizes of ALBERT, and the keys of its runs.

Lan et al. 2020, ALBERT: A Lite BERT for Self-supervised Learning of Language Representations. The
names of a model's fields are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.ranges import MOST_WIDTH, between
from bertwright.models.bert.config import PRESETS as BERT_PRESETS
from bertwright.models.bert.config import BertConfig, InstanceConfig, MaskedRun


@dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """The architecture of an ALBERT; the defaults are ALBERT Base."""

    vocab_size: int = 30000
    """V, the number of entries of the vocabulary."""
    embedding_size: int = 128
    """E, the width of the embeddings, which a linear layer projects to H."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu_tanh"
    """Activation of the feed-forward layer: GELU, exact or by its tanh approximation (as
    published).
    """
    hidden_dropout_prob: float = 0.0
    """Dropout after embeddings and attention; published: 0."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of attention probabilities; published: 0; above 0, attention is slower."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 1, MOST_WIDTH, "embedding_size")

    @property
    def projects_embeddings(self) -> bool:
        return True  # as published, also to the same width


PRESETS = {
    name.replace("bert", "albert", 1): AlbertConfig(
        embedding_size=min(128, bert.hidden_size // 2),
        hidden_size=bert.hidden_size,
        num_hidden_layers=bert.num_hidden_layers,
        num_attention_heads=bert.num_attention_heads,
        intermediate_size=bert.intermediate_size,
    )
    for name, bert in BERT_PRESETS.items()
}
"""BERT's sizes; base and large are published."""


@dataclass(frozen=True)
class AlbertInstanceConfig(InstanceConfig):
    """What one training sequence is made of."""

    objectives: Literal["mlm", "mlm+sop"] = "mlm+sop"
    """Masked LM alone, or with sentence-order prediction, as published."""


@dataclass(frozen=True)
class AlbertRun(MaskedRun):
    """A run of an ALBERT: BERT's, with sentence-order prediction."""

    instances: AlbertInstanceConfig = field(default_factory=AlbertInstanceConfig)
    """What a training sequence is made of."""
    architecture: AlbertConfig | None = None
    """The model's configuration; unset: that of the preset or of `init`."""
