"""Translation models as systems: pairs of sentences in, the target out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bertwright.config.runs.translation import TranslationRun
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.objectives.objective import Learner
from bertwright.objectives.translation import Translation
from bertwright.recipes.phases import Phase


def objectives(run: TranslationRun) -> list[str]:
    """The one of a translation model."""
    return ["translation"]


def phases(run: TranslationRun, shards: Shards) -> Sequence[Phase]:
    """The pairs that are not held out, all the time."""
    return [Phase(_pairs(run, shards, "train", run.seed), run.batch.tokens)]


def held_out(run: TranslationRun, shards: Shards, split: Split) -> ParallelText:
    """What a run is evaluated on."""
    return _pairs(run, shards, split, 0)


def _pairs(run: TranslationRun, shards: Shards, split: Split, seed: int) -> ParallelText:
    documents = split_documents(shards, split, run.validation.share)
    return ParallelText(shards, documents, run.sequence_length, seed=seed)


def initialize(learner: Learner, run: TranslationRun, shards: Shards) -> None:
    """The encoder, then the decoder, as published."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    translation = learner.objectives["translation"]
    assert isinstance(translation, Translation)
    translation.reset_parameters(generator)
