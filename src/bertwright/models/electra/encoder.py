"""The encoder of ELECTRA: BERT's layers over embeddings that may have another width.

Clark et al. 2020, section 3. The embeddings have a norm and dropout as in BERT. Where their width
differs from that of the layers, a linear layer projects them. The pooler is the dense layer with
GELU over [CLS] that transformers stores with the head of a classifier.

Letters: N tokens, E width of the embeddings, H hidden.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from torch import Tensor, nn

from bertwright.models.bert.encoder import Bert, BertEmbeddings, bert_spec
from bertwright.models.electra.config import ElectraConfig
from bertwright.nn.encoder import EncoderSpec


class ElectraEmbeddings(BertEmbeddings):
    """The normalized sum of token, position and segment embeddings, projected to H."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config, config.embedding_size)
        if config.embedding_size != config.hidden_size:
            self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def unprojected(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """Return the embeddings before the projection, `[N, E]`, which the generator shares."""
        return super().forward(ids, positions, segments)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        x = self.unprojected(ids, positions, segments)
        projected: Tensor = x if self.project is None else self.project(x)
        return projected


def electra_spec(config: ElectraConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    return replace(bert_spec(config), embedding_width=config.embedding_size)


class Electra(Bert):
    """The encoder of ELECTRA."""

    pooler_activation: ClassVar[str] = "gelu"

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config, electra_spec(config))

    def make_embeddings(self, config: ElectraConfig) -> BertEmbeddings:
        return ElectraEmbeddings(config)
