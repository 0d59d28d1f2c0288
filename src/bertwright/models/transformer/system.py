"""The Transformer as a system: pairs of sentences in, the target out."""

from __future__ import annotations

from bertwright.models.catalogue import MODELS
from bertwright.models.system import System
from bertwright.models.transformer.config import TransformerConfig
from bertwright.models.transformer.encoder import Transformer, TransformerDecoder, transformer_spec
from bertwright.models.translation import initialize, pairs
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.translation import Translation


def translation(config: TransformerConfig, encoder: Encoder) -> Translation:
    """Return a decoder that reads with the encoder's embeddings and predicts with its token
    vectors.
    """
    assert isinstance(encoder, Transformer)
    decoder = TransformerDecoder(config, encoder.embeddings)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


TRANSFORMER = System(
    row=MODELS["transformer"],
    encoder=Transformer,
    spec=transformer_spec,
    objectives={"translation": translation},
    instances=pairs,
    initialize=initialize,
)
