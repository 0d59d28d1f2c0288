"""The instances of language models, and the initialization of their output layer."""

from __future__ import annotations

import torch
from torch import Tensor

from bertwright.config.language_models import LanguageModelRun
from bertwright.config.run import EvaluatedRun
from bertwright.data.frequencies import log_frequencies, sample_training_tokens
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.data.token_streams import TokenStreams
from bertwright.models.system import RunSources, initialize_as_published
from bertwright.nn.objective import Learner


def token_streams(run: LanguageModelRun, shards: Shards, split: Split, seed: int) -> TokenStreams:
    """Return the documents of a split as windows of tokens."""
    held = run.validation
    shards, documents, _ = split_text(shards, split, held.fraction, held.hold_out)
    return TokenStreams(shards, documents, run.sequence_length, burn_in=run.burn_in, seed=seed)


def initialize_language_model(
    learner: Learner, run: EvaluatedRun, shards: Shards, sources: RunSources
) -> None:
    """Initialize all weights as published, except the output bias, which is initialized from the
    frequencies of tokens."""
    initialize_as_published(learner, run, shards, sources)
    predict_frequencies(learner.objectives["next_token"].get_parameter("bias"), run, shards)


def predict_frequencies(bias: Tensor, run: EvaluatedRun, shards: Shards) -> None:
    """Initialize the bias of an output layer `[V]` in place, so that it predicts each token by its
    frequency in the training text. Tokens beyond V count as the last."""
    frequencies = log_frequencies(sample_training_tokens(run, shards), len(bias))
    with torch.no_grad():
        bias.copy_(torch.from_numpy(frequencies))
