"""ModernBERT as a system: BERT's instances, and masked LM as the only objective."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from bertwright.data.shards import Shards
from bertwright.models.bert.initialization import initialize_from_counts
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.modernbert.config import ModernBertRun
from bertwright.models.modernbert.encoder import ModernBert, modernbert_spec
from bertwright.models.modernbert.huggingface import ModernBertLayout
from bertwright.models.system import RunSources
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner


def initialize_all(
    learner: Learner, run: ModernBertRun, shards: Shards, sources: RunSources
) -> None:
    """Initialize the layers as published, and token vectors and the output bias from counts of the
    training data, unless the run says otherwise."""
    encoder, head = learner.encoder, learner.objectives["masked_lm"]
    assert isinstance(encoder, ModernBert)
    assert isinstance(head, MaskedLM)
    generator = torch.Generator().manual_seed(run.seed)
    encoder.reset_parameters(generator)
    config = encoder.config
    std = config.initializer_range / math.sqrt(2 * config.num_hidden_layers)
    initialize(learner.objectives, std, generator)
    table = encoder.embeddings.token
    initialize(table, run.start.embedding_std, generator)
    initialize_from_counts(table.weight, head.bias, run, run.start, shards, generator)


MODERNBERT = replace(
    BERT,
    row=MODELS["modernbert"],
    encoder=ModernBert,
    spec=modernbert_spec,
    objectives={"masked_lm": MaskedLM},
    layout=ModernBertLayout,
    layouts={},
    model=without_unread_pooler,
    initialize=initialize_all,
)
