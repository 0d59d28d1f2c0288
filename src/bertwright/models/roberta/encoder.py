"""The encoder of RoBERTa, XLM-R and CamemBERT: BERT's, with positions that begin later.

Liu et al. 2019, section 3. The layers are BERT's. Position 0 is the row `first_position` of the
table, which is 2 as published: the rows before it are for padding, which we do not have. There is
one segment; a pair is `<s> A </s></s> B </s>`. The pooler is the dense layer with tanh over `<s>`
that transformers stores with the head of a classifier.
"""

from __future__ import annotations

from torch import Tensor

from bertwright.models.bert.encoder import Bert, BertEmbeddings
from bertwright.models.roberta.config import RobertaConfig


class RobertaEmbeddings(BertEmbeddings):
    """The sum of token, position and segment embeddings, normalized."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.first_position = config.first_position

    @property
    def position_vectors(self) -> Tensor:
        return self.position.weight[self.first_position :]

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        return super().sum(ids, positions + self.first_position, segments)


class Roberta(Bert):
    """The encoder of RoBERTa."""

    def make_embeddings(self, config: RobertaConfig) -> BertEmbeddings:
        return RobertaEmbeddings(config)
