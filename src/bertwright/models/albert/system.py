"""ALBERT as a system: BERT's instances, masked LM and sentence-order prediction."""

from __future__ import annotations

from dataclasses import replace

from bertwright.models.albert.encoder import Albert
from bertwright.models.albert.huggingface import AlbertLayout
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, next_sentence, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.system import initialize_as_published

ALBERT = replace(
    BERT,
    row=MODELS["albert"],
    encoder=Albert,
    objectives={"masked_lm": MaskedLM, "next_sentence": next_sentence},
    layout=AlbertLayout,
    layouts={},
    model=without_unread_pooler,
    initialize=initialize_as_published,
)
