"""The encoder of ALBERT: one of BERT's layers, used L times (Lan et al. 2020, section 3.1).

The embeddings are narrower than the layers, and a linear layer projects them. All layers share
their parameters, so that the model is stored and trained as one layer, and computed as L.

Letters: N tokens, E width of the embeddings, H hidden, L layers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from bertwright.models.albert.config import AlbertConfig
from bertwright.models.bert.encoder import Bert, BertEmbeddings, bert_spec
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.transformer.layers import TransformerLayer, layers_of


class AlbertEmbeddings(BertEmbeddings):
    """The normalized sum of token, position and segment embeddings, projected to H."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config, config.embedding_size)
        self.project: nn.Linear = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        projected: Tensor = self.project(super().forward(ids, positions, segments))
        return projected


def albert_spec(config: AlbertConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    return replace(bert_spec(config), embedding_width=config.embedding_size)


class Albert(Bert):
    """The encoder of ALBERT."""

    shared_layer: TransformerLayer
    """The one layer, which is used L times."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config, albert_spec(config))

    def make_embeddings(self, config: AlbertConfig) -> BertEmbeddings:
        return AlbertEmbeddings(config)

    def make_layers(self, config: AlbertConfig) -> Any:
        """Return a tuple that holds the one layer L times.

        A tuple does not register its modules, so the parameters have one name only.
        """
        (layer,) = layers_of(replace(config, num_hidden_layers=1))
        assert isinstance(layer, TransformerLayer)
        self.shared_layer = layer
        return (self.shared_layer,) * config.num_hidden_layers
