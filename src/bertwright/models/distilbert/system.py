"""DistilBERT as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.data.shards import Shards
from bertwright.models.bert.system import BERT, masked_lm
from bertwright.models.catalogue import MODELS
from bertwright.models.distilbert.config import DistilBertRun
from bertwright.models.distilbert.encoder import DistilBert
from bertwright.models.distilbert.huggingface import DistilBertLayout
from bertwright.models.system import RunSources, model_of_the_run


def new_model(run: DistilBertRun, shards: Shards, sources: RunSources) -> Any:
    """Return the configuration of a new model, without a pooler, which only a classifier reads."""
    return replace(model_of_the_run(run, shards, sources), pooler=False)


DISTILBERT = replace(
    BERT,
    row=MODELS["distilbert"],
    encoder=DistilBert,
    objectives={"masked_lm": masked_lm},
    layout=DistilBertLayout,
    layouts={},
    model=new_model,
)
