"""RoBERTa, XLM-R and CamemBERT as systems: BERT's instances, and masked LM as only objective."""

from __future__ import annotations

from dataclasses import replace

from bertwright.data.shards import Shards
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, without_unread_pooler
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
from bertwright.models.system import RunSources


def new_model(run: RobertaRun, shards: Shards, sources: RunSources) -> RobertaConfig:
    """Return the configuration of a new model, whose positions begin after the row of the padding
    token's id.
    """
    config: RobertaConfig = without_unread_pooler(run, shards, sources)
    return replace(config, first_position=shards.special_id("pad") + 1)


ROBERTA = replace(
    BERT,
    row=MODELS["roberta"],
    encoder=Roberta,
    objectives={"masked_lm": MaskedLM},
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
