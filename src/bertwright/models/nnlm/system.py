"""The neural probabilistic language model as a system: token streams in, the next token out."""

from __future__ import annotations

from functools import partial

from bertwright.models.catalogue import MODELS
from bertwright.models.language_models import initialize_language_model, token_streams
from bertwright.models.nnlm.encoder import NnlmEncoder, nnlm_spec
from bertwright.models.system import System
from bertwright.nn.outputs.next_token import next_token

NNLM = System(
    row=MODELS["nnlm"],
    encoder=NnlmEncoder,
    spec=nnlm_spec,
    objectives={"next_token": partial(next_token, tied=False)},
    instances=token_streams,
    initialize=initialize_language_model,
)
