"""GPT and GPT-2 as systems: token streams in, the next token out through the tied embeddings."""

from __future__ import annotations

from bertwright.models.gpt.config import MODEL_TYPE, Gpt2Config, Gpt2Run, GptConfig, GptRun
from bertwright.models.gpt.encoder import Gpt, Gpt2, gpt_spec
from bertwright.models.gpt.huggingface import Gpt2Layout, GptLayout
from bertwright.models.gpt.initialization import initialize_gpt
from bertwright.models.language_models import token_streams
from bertwright.models.system import System
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.next_token import NextToken, tied_next_token


def next_token(config: GptConfig, encoder: Encoder) -> NextToken:
    """Return the output layer, which is the token embeddings without a bias."""
    return tied_next_token(config, encoder, bias=False)


GPT = System(
    name="gpt",
    model_type=MODEL_TYPE,
    config=GptConfig,
    encoder=Gpt,
    spec=gpt_spec,
    objectives={"next_token": next_token},
    layout=GptLayout,
    run=GptRun,
    instances=token_streams,
    initialize=initialize_gpt,
)
GPT2 = System(
    name="gpt2",
    config=Gpt2Config,
    encoder=Gpt2,
    spec=gpt_spec,
    objectives={"next_token": next_token},
    layout=Gpt2Layout,
    run=Gpt2Run,
    instances=token_streams,
    initialize=initialize_gpt,
)
