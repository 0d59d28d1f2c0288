"""The neural probabilistic language model as a system: token streams in, the next token out."""

from __future__ import annotations

from bertwright.models.catalogue import MODELS
from bertwright.models.language_models import initialize_language_model, token_streams
from bertwright.models.nnlm.config import NnlmConfig
from bertwright.models.nnlm.encoder import NnlmEncoder, nnlm_spec
from bertwright.models.system import System
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.next_token import NextToken


def next_token(config: NnlmConfig, encoder: Encoder) -> NextToken:
    """Return the output layer over the hidden layer, which has its own weights."""
    return NextToken(encoder.spec.width, config.vocab_size)


NNLM = System(
    row=MODELS["nnlm"],
    encoder=NnlmEncoder,
    spec=nnlm_spec,
    objectives={"next_token": next_token},
    instances=token_streams,
    initialize=initialize_language_model,
)
