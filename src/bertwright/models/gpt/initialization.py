"""The initialization of GPT: a new model predicts each token by its frequency.

For other language models, the frequencies of tokens initialize the bias of the output layer. A GPT
has no such bias: its logits are `W x + W b`, where b is the bias of the last norm and W the token
embeddings. Therefore b is initialized to the same number k in all dimensions, and the rows of W get
the mean `log f / (H k)`, where f is the frequency of the token; W b is then log f. Nothing else
changes: a norm subtracts the mean of a vector, so the rest of x has no component in this direction,
and the layers behind a norm do not see it in their inputs.

Without this, a language model spends its first minutes on frequencies: all its vectors grow in one
common direction, which replaces the bias, and hardly differ in the others.
"""

from __future__ import annotations

import torch

from bertwright.config.run import EvaluatedRun
from bertwright.data.frequencies import log_frequencies, sample_training_tokens
from bertwright.data.shards import Shards
from bertwright.models.gpt.encoder import Gpt
from bertwright.models.system import RunSources, initialize_as_published
from bertwright.nn.objective import Learner

NORM_BIAS = 0.25
"""k. The norm has a standard deviation of 1 in each dimension, so this is a small part of a
vector."""


def initialize_gpt(
    learner: Learner, run: EvaluatedRun, shards: Shards, sources: RunSources
) -> None:
    """Initialize all weights as published, except the mean of each token's embedding and the bias
    of the last norm, which make the model predict tokens by their frequency in the training
    text."""
    initialize_as_published(learner, run, shards, sources)
    encoder = learner.encoder
    assert isinstance(encoder, Gpt)
    vectors = encoder.embeddings.token.weight
    count, width = vectors.shape
    frequencies = torch.from_numpy(log_frequencies(sample_training_tokens(run, shards), count))
    with torch.no_grad():
        vectors -= vectors.mean(1, keepdim=True)
        vectors += (frequencies / (width * NORM_BIAS)).to(vectors.dtype)[:, None]
        encoder.last_norm.bias.fill_(NORM_BIAS)
