"""Memory networks as a system: stories with questions in, answers out."""

from __future__ import annotations

import torch
from torch import nn

from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.models.catalogue import MODELS
from bertwright.models.memory_network.answer import StoryAnswer
from bertwright.models.memory_network.config import MemoryNetworkConfig, MemoryNetworkRun
from bertwright.models.memory_network.stories import Stories
from bertwright.models.system import RunSources, System
from bertwright.models.word_vectors.encoder import WordVectors, word_vectors_spec
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner


def answer(config: MemoryNetworkConfig, encoder: Encoder) -> StoryAnswer:
    """Return the objective: the memory and the output layer of the answer."""
    return StoryAnswer(config)


def stories(run: MemoryNetworkRun, shards: Shards, split: Split, seed: int) -> Stories:
    """Return the stories of a split as the run reads them."""
    documents = split_documents(shards, split, run.validation.fraction)
    size = run.model_config(shards.vocab_size).memory_size
    return Stories(shards, documents, size, run.longest_story, seed)


def initialize(
    learner: Learner, run: MemoryNetworkRun, shards: Shards, sources: RunSources
) -> None:
    """Draw every table from a normal distribution with a standard deviation of 0.1 (Sukhbaatar et
    al. 2015, section 4.2).
    """
    generator = torch.Generator().manual_seed(run.seed)
    for parameter in learner.parameters():
        nn.init.normal_(parameter, 0.0, 0.1, generator=generator)


MEMORY_NETWORK = System(
    row=MODELS["memory-network"],
    encoder=WordVectors,
    spec=word_vectors_spec,
    objectives={"answer": answer},
    instances=stories,
    initialize=initialize,
)
