"""ALBERT as a system: BERT's instances, masked LM and sentence-order prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.data.shards import Shards
from bertwright.models.albert.config import AlbertConfig, AlbertRun
from bertwright.models.albert.encoder import Albert, albert_spec
from bertwright.models.albert.huggingface import AlbertLayout
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, next_sentence, objectives
from bertwright.models.catalogue import MODELS
from bertwright.models.system import RunSources, initialize_as_published, model_of_the_run
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.transform import Transform


def masked_lm(config: AlbertConfig, encoder: Encoder) -> MaskedLM:
    """Return the masked LM: BERT's, with a dense layer from H to the width of the embeddings."""
    embedding = encoder.token_embedding()
    assert embedding is not None
    eps, width = config.layer_norm_eps, config.embedding_size
    return MaskedLM(config, embedding, Transform(config.hidden_size, config.hidden_act, eps, width))


def new_model(run: AlbertRun, shards: Shards, sources: RunSources) -> Any:
    """Return the configuration of a new model, which has a pooler if an objective reads it."""
    pooler = "next_sentence" in objectives(run)
    return replace(model_of_the_run(run, shards, sources), pooler=pooler)


ALBERT = replace(
    BERT,
    row=MODELS["albert"],
    encoder=Albert,
    spec=albert_spec,
    objectives={"masked_lm": masked_lm, "next_sentence": next_sentence},
    layout=AlbertLayout,
    layouts={},
    model=new_model,
    initialize=initialize_as_published,
)
