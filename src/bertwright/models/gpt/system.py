"""GPT and GPT-2 as systems: token streams in, the next token out through the tied embeddings."""

from __future__ import annotations

from functools import partial

from bertwright.models.catalogue import MODELS
from bertwright.models.gpt.encoder import Gpt, Gpt2, gpt_spec
from bertwright.models.gpt.huggingface import Gpt2Layout, GptLayout
from bertwright.models.gpt.initialization import initialize_gpt
from bertwright.models.language_models import token_streams
from bertwright.models.system import System
from bertwright.nn.outputs.next_token import next_token

WITHOUT_BIAS = partial(next_token, bias=False)
"""The output layer, which is the token embeddings without a bias."""

GPT = System(
    row=MODELS["gpt"],
    encoder=Gpt,
    spec=gpt_spec,
    objectives={"next_token": WITHOUT_BIAS},
    layout=GptLayout,
    instances=token_streams,
    initialize=initialize_gpt,
)
GPT2 = System(
    row=MODELS["gpt2"],
    encoder=Gpt2,
    spec=gpt_spec,
    objectives={"next_token": WITHOUT_BIAS},
    layout=Gpt2Layout,
    instances=token_streams,
    initialize=initialize_gpt,
)
