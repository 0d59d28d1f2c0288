"""Count the frequencies of tokens in the training text, for the initial bias of an output layer.

If the bias of a model's softmax is initialized with the logarithms of these frequencies, the model
predicts each token by its frequency before the first step. Otherwise a language model spends its
first steps on learning this: its vectors grow in one common direction, which takes the place of the
bias.
"""

from __future__ import annotations

import numpy as np

from bertwright.arrays import Float64s, Int64s
from bertwright.config.run import EvaluatedRun
from bertwright.data.randomness import make_key, permutation
from bertwright.data.shards import Shards
from bertwright.data.split import split_text

COUNTED_TOKENS = 40_000_000
"""The maximum number of tokens of training documents that are counted."""


def sample_training_tokens(run: EvaluatedRun, shards: Shards) -> Int64s:
    """Return at most `COUNTED_TOKENS` tokens of random training documents of a run, end to end;
    held-out documents are not read."""
    held = run.validation
    shards, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    bounds = shards.sentence_tokens[shards.document_sentences]
    parts, left = [], COUNTED_TOKENS
    for document in documents[permutation(make_key("frequencies", run.seed), len(documents))]:
        start, stop = int(bounds[document]), int(bounds[document + 1])
        parts.append(shards.tokens(start, min(stop, start + left)))
        left -= len(parts[-1])
        if left <= 0:
            break
    return np.concatenate(parts)


def log_frequencies(tokens: Int64s, size: int) -> Float64s:
    """Return the logarithm of the frequency of each id below `size`, minus their mean.

    Args:
        tokens: ids of running text, `[N]`. Each id is counted once more than it occurs, so that no
            frequency is 0.
        size: the number of ids; larger ids count as the last one.

    Returns:
        `[size]`.
    """
    counts = np.bincount(np.minimum(tokens, size - 1), minlength=size) + 1.0
    logarithms = np.log(counts / counts.sum())
    centred: Float64s = logarithms - logarithms.mean()
    return centred
