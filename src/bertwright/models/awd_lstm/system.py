"""AWD-LSTM as a system: token streams in, the next token out through the tied embeddings."""

from __future__ import annotations

from bertwright.models.awd_lstm.config import AwdLstmConfig
from bertwright.models.awd_lstm.encoder import AwdLstm, awd_lstm_spec
from bertwright.models.catalogue import MODELS
from bertwright.models.language_models import initialize_language_model, token_streams
from bertwright.models.system import System
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.next_token import NextToken, next_token


def penalized(config: AwdLstmConfig, encoder: Encoder) -> NextToken:
    """Return the tied output layer, with the penalties AR and TAR on the last layer."""
    penalties = config.activation_penalty, config.temporal_penalty
    return next_token(config, encoder, penalties=penalties)


AWD_LSTM = System(
    row=MODELS["awd-lstm"],
    encoder=AwdLstm,
    spec=awd_lstm_spec,
    objectives={"next_token": penalized},
    instances=token_streams,
    initialize=initialize_language_model,
)
