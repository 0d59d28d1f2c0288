"""Language models: which head predicts the next token of each."""

from __future__ import annotations

from bertwright.checkpoint.format import Format
from bertwright.config.runs.language_models import (
    AwdLstmConfig,
    ElmoConfig,
    NgramConfig,
    NnlmConfig,
)
from bertwright.models.awd_lstm import AwdLstm
from bertwright.models.elmo import Elmo
from bertwright.models.encoder import Encoder
from bertwright.models.ngram import NgramContext
from bertwright.models.nnlm import NnlmEncoder
from bertwright.objectives.both_directions import BothDirections
from bertwright.objectives.next_token import NextToken
from bertwright.objectives.ngrams import Ngrams


def _both_directions(config: ElmoConfig, encoder: Encoder) -> BothDirections:
    outputs = min(config.vocab_size, (config.output_size or config.vocab_size) + 1)
    both = config.direction == "both"
    return BothDirections(config.projection_dim, outputs, both, config.negative_samples)


def _awd_lstm_head(config: AwdLstmConfig, encoder: Encoder) -> NextToken:
    penalties = config.activation_penalty, config.temporal_penalty
    table = encoder.token_embedding()
    return NextToken(config.embedding_size, config.vocab_size, table, penalties=penalties)


ELMO = Format("elmo", ElmoConfig, Elmo, {"next_token": _both_directions})
AWD_LSTM = Format("awd-lstm", AwdLstmConfig, AwdLstm, {"next_token": _awd_lstm_head})
_OWN = {"next_token": lambda config, encoder: NextToken(encoder.spec.width, config.vocab_size)}
NNLM = Format("nnlm", NnlmConfig, NnlmEncoder, _OWN)
NGRAM = Format("ngram", NgramConfig, NgramContext, {"next_token": lambda c, _: Ngrams(c)})
