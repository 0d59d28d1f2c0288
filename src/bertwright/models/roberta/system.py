"""RoBERTa, XLM-R and CamemBERT as systems: BERT's instances, and masked LM as only objective."""

from __future__ import annotations

from dataclasses import replace

from bertwright.data.shards import Shards
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT
from bertwright.models.catalogue import MODELS
from bertwright.models.roberta.config import (
    RobertaConfig,
    RobertaRun,
)
from bertwright.models.roberta.encoder import Roberta
from bertwright.models.roberta.huggingface import (
    CamembertLayout,
    RobertaLayout,
    XlmRobertaLayout,
)
from bertwright.models.system import RunSources, model_of_the_run
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.transform import Transform


def masked_lm(config: RobertaConfig, encoder: Encoder) -> MaskedLM:
    """Return the masked LM, which is BERT's with exact GELU, whatever the layers' activation."""
    embedding = encoder.token_embedding()
    assert embedding is not None
    transform = Transform(config.hidden_size, "gelu", config.layer_norm_eps)
    return MaskedLM(config, embedding, transform)


def new_model(run: RobertaRun, shards: Shards, sources: RunSources) -> RobertaConfig:
    """Return the configuration of a new model: its positions begin after the row of the padding
    token's id, and it has no pooler, which only a classifier reads.
    """
    config = model_of_the_run(run, shards, sources)
    assert isinstance(config, RobertaConfig)
    first = shards.special_id("pad") + 1
    return replace(config, first_position=first, pooler=False)


ROBERTA = replace(
    BERT,
    row=MODELS["roberta"],
    encoder=Roberta,
    objectives={"masked_lm": masked_lm},
    layout=RobertaLayout,
    layouts={},
    model=new_model,
)
XLM_ROBERTA = replace(
    ROBERTA,
    row=MODELS["xlm-roberta"],
    layout=XlmRobertaLayout,
)
CAMEMBERT = replace(
    ROBERTA,
    row=MODELS["camembert"],
    layout=CamembertLayout,
)
