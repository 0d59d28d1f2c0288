"""DistilBERT as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

from dataclasses import replace

from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.distilbert.encoder import DistilBert
from bertwright.models.distilbert.huggingface import DistilBertLayout

DISTILBERT = replace(
    BERT,
    row=MODELS["distilbert"],
    encoder=DistilBert,
    objectives={"masked_lm": MaskedLM},
    layout=DistilBertLayout,
    layouts={},
    model=without_unread_pooler,
)
