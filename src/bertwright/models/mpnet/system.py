"""MPNet as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.data.shards import Shards
from bertwright.models.bert.encoder import bert_spec
from bertwright.models.catalogue import MODELS
from bertwright.models.mpnet.config import MpnetRun
from bertwright.models.mpnet.encoder import Mpnet
from bertwright.models.mpnet.huggingface import MpnetLayout
from bertwright.models.roberta.system import ROBERTA
from bertwright.models.system import RunSources, initialize_as_published, model_of_the_run


def new_model(run: MpnetRun, shards: Shards, sources: RunSources) -> Any:
    """Return the configuration of a new model, without a pooler, which only a classifier reads."""
    return replace(model_of_the_run(run, shards, sources), pooler=False)


MPNET = replace(
    ROBERTA,
    row=MODELS["mpnet"],
    encoder=Mpnet,
    spec=bert_spec,
    layout=MpnetLayout,
    model=new_model,
    initialize=initialize_as_published,
)
