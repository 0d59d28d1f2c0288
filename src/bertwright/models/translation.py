"""The instances of translation models, and the initialization of their weights."""

from __future__ import annotations

from typing import cast

import torch

from bertwright.config.translation import TranslationRun
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.models.system import RunSources
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.translation import Translation


def pairs(run: TranslationRun, shards: Shards, split: Split, seed: int) -> ParallelText:
    """Return the pairs of a split as the run reads them."""
    documents = split_documents(shards, split, run.validation.fraction)
    return ParallelText(shards, documents, run.sequence_length, seed=seed)


def initialize(learner: Learner, run: TranslationRun, shards: Shards, sources: RunSources) -> None:
    """Initialize the encoder, then the decoder, as published."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    cast(Translation, learner.objectives["translation"]).reset_parameters(generator)
