"""Language models as systems: token streams in, the next token out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from bertwright.config.run import RunConfig
from bertwright.config.runs.language_model import LanguageModelRun
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.data.token_streams import TokenStreams
from bertwright.nn.init import initialize
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Phase


def objectives(run: LanguageModelRun) -> list[str]:
    """The one of a language model from left to right."""
    return ["next_token"]


def phases(run: LanguageModelRun, shards: Shards) -> Sequence[Phase]:
    """The documents that are not held out, all the time."""
    return [Phase(token_streams(run, shards, "train", run.seed), run.batch.tokens)]


def held_out(run: LanguageModelRun, shards: Shards, split: Split) -> TokenStreams:
    """What a run is evaluated on."""
    return token_streams(run, shards, split, 0)


def token_streams(
    run: LanguageModelRun, shards: Shards, split: Split, seed: int, units: Any = None
) -> TokenStreams:
    """The documents of a split as the run reads them; `units` as `TokenStreams` has them."""
    documents = split_documents(shards, split, run.validation.share)
    return TokenStreams(
        shards, documents, run.sequence_length, burn_in=run.burn_in, seed=seed, units=units
    )


def initialize_as_published(learner: Learner, run: RunConfig, shards: Shards) -> None:
    """The encoder by its `reset_parameters`, linear layers of objectives with a deviation of
    0.02."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    initialize(learner.objectives, 0.02, generator)
