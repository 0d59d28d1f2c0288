"""The encoder of ALBERT: one of BERT's layers, used L times (Lan et al. 2020, section 3.1).

The embeddings are narrower than the layers, and a linear layer projects them. All layers share
their parameters, so that the model is stored and trained as one layer, and computed as L.

Letters: L layers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.models.albert.config import AlbertConfig
from bertwright.models.bert.encoder import Bert
from bertwright.nn.transformer.layers import TransformerLayer, layers_of


class Albert(Bert):
    """The encoder of ALBERT."""

    shared_layer: TransformerLayer
    """The one layer, which is used L times."""

    def make_layers(self, config: AlbertConfig) -> Any:
        """Return a tuple that holds the one layer L times.

        A tuple does not register its modules, so the parameters have one name only.
        """
        (layer,) = layers_of(replace(config, num_hidden_layers=1))
        assert isinstance(layer, TransformerLayer)
        self.shared_layer = layer
        return (self.shared_layer,) * config.num_hidden_layers
