"""word2vec as a system: passes over the chunks of a built corpus (Mikolov et al. 2013a, b)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Int64s
from bertwright.config.runs.word_vectors import Word2VecRun
from bertwright.data.randomness import make_key
from bertwright.data.shards import Shards
from bertwright.data.word_vectors.corpus import (
    alias_table,
    chunk_starts,
    count_words,
    huffman_codes,
    keep_probabilities,
    read_chunk,
)
from bertwright.errors import MissingExtra
from bertwright.machine import usable_cores
from bertwright.objectives.context_words import ContextWords
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Pass
from bertwright.recipes.systems import System


def load_kernels() -> Any:
    """The compiled loops.

    Raises:
        MissingExtra: numba is not installed.
    """
    try:
        return import_module("bertwright.recipes.word_vectors.kernels")
    except ImportError as error:
        raise MissingExtra("words", "numba", "training word vectors") from error


def fit(run: Word2VecRun, shards: Shards, learner: Learner, done: int) -> Iterator[Pass]:
    """Pass by pass; a word's vector is its row of the encoder's table."""
    words = np.arange(shards.vocab_size + 1)
    table = learner.encoder.token_embedding()
    assert table is not None
    yield from fit_context_words(run, shards, learner, table.weight.data, words, words[:-1], done)


WORD2VEC = System(fit=fit)


def fit_context_words(
    run: Word2VecRun,
    shards: Shards,
    learner: Learner,
    rows: torch.Tensor,
    unit_starts: Int64s,
    units: Int64s,
    done: int,
) -> Iterator[Pass]:
    """Train `rows` `[R, H]` and the output vectors.

    What is drawn, and the learning rate, are functions of the seed and the position in the text, so
    that the first of `workers` threads to be free may take the next chunk.

    Args:
        rows: those that make words' vectors.
        unit_starts: `[V + 1]` where each word's rows start in `units`.
        units: numbers of rows, averaged.
        done: passes that were made before.
    """
    kernels, config = load_kernels(), cast(Any, learner.encoder).config
    counts = count_words(shards)
    hierarchical = config.loss == "hierarchical-softmax"
    paths = huffman_codes(counts if hierarchical else counts[:0])
    noise = alias_table(np.where(counts > 0, counts.astype(np.float64) ** 0.75, 0.0))
    output = cast(ContextWords, learner.objectives["context_words"]).output
    cbow = config.algorithm == "cbow"
    rate = run.learning_rate or (0.05 if cbow else 0.025)
    keep = keep_probabilities(counts, run.subsample)
    starts, passes = chunk_starts(shards), math.ceil(run.epochs or 1)

    def rate_at(number: int, token: int) -> float:
        left = 1 - (number + token / shards.num_tokens) / passes
        return rate * max(left, 1e-4)

    for number in range(done, passes):

        def train(chunk: int, number: int = number) -> tuple[float, int]:
            start, stop = int(starts[chunk]), int(starts[chunk + 1])
            found: tuple[float, int] = kernels.train_context_words(
                *read_chunk(shards, start, stop),
                rows.numpy(),
                output.data.numpy(),
                unit_starts,
                units.astype(np.int32),
                keep,
                *noise,
                *paths,
                cbow,
                run.window,
                0 if hierarchical else run.negative,
                rate_at(number, start),
                rate_at(number, stop),
                make_key("context words", run.seed, number, chunk),
            )
            return found

        summed = np.sum(in_threads(train, range(len(starts) - 1), run.workers), axis=0)
        loss = float(summed[0] / max(1, summed[1]))
        yield Pass(int(counts.sum()), {"loss": loss, "learning_rate": rate_at(number + 1, 0)})


def in_threads(work: Callable[[int], Any], items: Sequence[int], workers: int) -> list[Any]:
    """`work` of each item, in order; with one worker one after the other, in this thread."""
    workers = workers or usable_cores()
    if workers == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))
