"""MPNet as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

from dataclasses import replace

from bertwright.models.bert.encoder import bert_spec
from bertwright.models.bert.system import without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.mpnet.encoder import Mpnet
from bertwright.models.mpnet.huggingface import MpnetLayout
from bertwright.models.roberta.system import ROBERTA
from bertwright.models.system import initialize_as_published

MPNET = replace(
    ROBERTA,
    row=MODELS["mpnet"],
    encoder=Mpnet,
    spec=bert_spec,
    layout=MpnetLayout,
    model=without_unread_pooler,
    initialize=initialize_as_published,
)
