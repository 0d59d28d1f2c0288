"""GloVe as a system: pairs are counted once, then passes over their entries in random order."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import torch

from bertwright.arrays import Int64s
from bertwright.config.runs.word_vectors import GloveRun
from bertwright.data.randomness import make_key, permutation
from bertwright.data.shards import Shards
from bertwright.data.word_vectors.cooccurrences import CountedPairs, count_pairs
from bertwright.data.word_vectors.corpus import chunks, count_words
from bertwright.objectives.cooccurrences import Cooccurrences
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Pass
from bertwright.recipes.systems import System
from bertwright.recipes.word_vectors.word2vec import in_threads, load_kernels

_SLICE = 1 << 18


def initialize(learner: Learner, run: GloveRun, shards: Shards) -> None:
    """Small random vectors of words and contexts; of the encoder, their sum."""
    load_kernels()
    objective = cast(Cooccurrences, learner.objectives["cooccurrences"])
    objective.reset_parameters(torch.Generator().manual_seed(run.seed))
    _set_table(learner, objective)


def _set_table(learner: Learner, objective: Cooccurrences) -> None:
    table = learner.encoder.token_embedding()
    assert table is not None
    table.weight.data.copy_(objective.vectors.data.sum(0))


def fit(run: GloveRun, shards: Shards, learner: Learner, done: int) -> Iterator[Pass]:
    """Count, then pass by pass; a run that is resumed counts again."""
    kernels = load_kernels()
    objective = cast(Cooccurrences, learner.objectives["cooccurrences"])
    tables = [each.numpy() for each in objective.tables()]
    counts = count_words(shards)
    with tempfile.TemporaryDirectory(prefix=".cooccurrences-", dir=run.out) as folder:
        pairs = CountedPairs(Path(folder), run.memory_mb << 20)
        count_pairs(chunks(shards), counts, run.window, pairs)
        parts = pairs.shuffled(run.seed)
        for number in range(done, math.ceil(run.epochs or 1)):
            loss = entries = 0.0
            for part in permutation(make_key("parts", run.seed, number), len(parts)).tolist():
                keys = np.fromfile(parts[part][0], np.int64)
                sums = np.fromfile(parts[part][1], np.float64)
                order = permutation(make_key("entries", run.seed, number, part), len(keys))

                def train(start: int, keys: Int64s = keys, sums=sums, order=order):  # type: ignore[no-untyped-def]
                    own = order[start : start + _SLICE]
                    settings = (run.most, run.power, run.learning_rate)
                    return kernels.train_cooccurrences(keys, sums, own, *tables, *settings)

                for each in in_threads(train, range(0, len(keys), _SLICE), run.workers):
                    loss, entries = loss + each[0], entries + each[1]
            _set_table(learner, objective)
            mean = {"loss": loss / max(1, entries), "entries": entries}
            yield Pass(int(counts.sum()), mean)


GLOVE = System(initialize=initialize, fit=fit)
