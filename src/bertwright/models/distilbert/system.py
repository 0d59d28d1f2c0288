"""DistilBERT as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.data.shards import Shards
from bertwright.models.bert.system import BERT, masked_lm
from bertwright.models.distilbert.config import DistilBertConfig, DistilBertRun
from bertwright.models.distilbert.encoder import DistilBert
from bertwright.models.distilbert.huggingface import DistilBertLayout
from bertwright.models.system import Opened, model_of_the_run


def new_model(run: DistilBertRun, shards: Shards, opened: Opened) -> Any:
    """Return the configuration of a new model, without a pooler, which only a classifier reads."""
    return replace(model_of_the_run(run, shards, opened), pooler=False)


DISTILBERT = replace(
    BERT,
    name="distilbert",
    config=DistilBertConfig,
    encoder=DistilBert,
    objectives={"masked_lm": masked_lm},
    layout=DistilBertLayout,
    layouts={},
    run=DistilBertRun,
    model=new_model,
)
