"""word2vec, fastText and GloVe as systems: compiled loops make passes over a built corpus.

Mikolov et al. 2013a, b; Bojanowski et al. 2017; Pennington et al. 2014. Random numbers and the
learning rate are functions of the seed and the position in the text, so any of the `workers`
threads may take the next chunk. Each pass has its own random order, so that a run which ends within
a pass has read a sample of the text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Float64s, Int32s, Int64s
from bertwright.data.counted_pairs import CountedPairs, count_pairs
from bertwright.data.loading.phases import Pass, PassBudget
from bertwright.data.randomness import make_key, permutation
from bertwright.data.shards import Shards
from bertwright.errors import MissingExtra
from bertwright.machine import usable_cores
from bertwright.models.catalogue import MODELS
from bertwright.models.system import RunSources, System, initialize_as_published
from bertwright.models.word_vectors import corpus
from bertwright.models.word_vectors.config import (
    FastTextRun,
    GloveConfig,
    GloveRun,
    Word2VecConfig,
    Word2VecRun,
)
from bertwright.models.word_vectors.encoder import FastText, WordVectors, word_vectors_spec
from bertwright.models.word_vectors.model2vec import Model2VecLayout
from bertwright.models.word_vectors.objectives import ContextWords, Cooccurrences
from bertwright.models.word_vectors.subwords import word_units
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import load_tokenizer

_SLICE = 1 << 18
"""The number of entries of GloVe that a thread takes at once."""


def load_kernels() -> Any:
    """Return the compiled loops; raise MissingExtra if numba is not installed."""
    try:
        return import_module("bertwright.models.word_vectors.kernels")
    except ImportError as error:
        raise MissingExtra("words", "numba", "training word vectors") from error


def in_threads(work: Callable[[int], Any], items: Sequence[int], workers: int) -> list[Any]:
    """Return the results of `work` for all items, in order. A single worker runs them one after the
    other.
    """
    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        return list(pool.map(work, items))


def fit_word2vec(
    run: Word2VecRun, shards: Shards, learner: Learner, budget: PassBudget
) -> Iterator[Pass]:
    """Train word2vec pass by pass. A word's vector is its row of the encoder's table."""
    words = np.arange(shards.vocab_size + 1)
    table = cast(WordVectors, learner.encoder).table.weight.data
    return _passes(run, shards, learner, table, words, words[:-1], budget)


def initialize_fasttext(
    learner: Learner, run: FastTextRun, shards: Shards, sources: RunSources
) -> None:
    """Draw small random rows and compute the words' vectors from them. Outputs are zero."""
    initialize_as_published(learner, run, shards, sources)
    encoder = cast(FastText, learner.encoder)
    encoder.counts.copy_(torch.from_numpy(corpus.count_words(shards)))
    encoder.set_table(*_units(encoder, shards))


def fit_fasttext(
    run: FastTextRun, shards: Shards, learner: Learner, budget: PassBudget
) -> Iterator[Pass]:
    """Train fastText pass by pass. After each pass, the words' vectors are computed from their
    rows."""
    encoder = cast(FastText, learner.encoder)
    starts, units = _units(encoder, shards)
    for each in _passes(run, shards, learner, encoder.rows, starts, units, budget):
        encoder.set_table(starts, units)
        yield each


def _units(encoder: FastText, shards: Shards) -> tuple[Int64s, Int64s]:
    config = encoder.config
    words = load_tokenizer(shards.tokenizer_folder).tokens_of(range(config.vocab_size))
    return word_units(words, shards.special_ids, config.buckets, config.min_n, config.max_n)


def _passes(
    run: Word2VecRun,
    shards: Shards,
    learner: Learner,
    rows: torch.Tensor,
    unit_starts: Int64s,
    units: Int64s,
    budget: PassBudget,
) -> Iterator[Pass]:
    """Train the output vectors and the rows `[R, H]` pass by pass. The vector of a word is the mean
    of its rows, which are listed in `units` from `unit_starts` `[V + 1]` on.
    """
    kernels, config = load_kernels(), cast(Any, learner.encoder).config
    counts = corpus.count_words(shards)
    hierarchical = config.loss == "hierarchical-softmax"
    paths = corpus.huffman_codes(counts if hierarchical else counts[:0])
    noise = corpus.alias_table(np.where(counts > 0, counts.astype(np.float64) ** 0.75, 0.0))
    output = cast(ContextWords, learner.objectives["context_words"]).output
    cbow = config.algorithm == "cbow"
    rate = run.learning_rate or (0.05 if cbow else 0.025)
    keep = corpus.keep_probabilities(counts, run.subsample)
    spans, words = corpus.chunk_spans(shards), int(counts.sum())
    unit_ids = units.astype(np.int32)

    def done_at(number: int, place: int) -> float:
        return budget.done(number, place / len(spans))

    def rate_at(done: float) -> float:
        return rate * max(1 - done, 1e-4)

    def train_chunk(
        tokens: Int32s, ends: Int64s, rates: tuple[float, float], key: np.uint64
    ) -> tuple[float, int]:
        loss_and_count: tuple[float, int] = kernels.train_context_words(
            tokens,
            ends,
            rows.numpy(),
            output.data.numpy(),
            unit_starts,
            unit_ids,
            keep,
            noise,
            paths,
            cbow,
            run.window,
            0 if hierarchical else run.negative,
            rates,
            key,
        )
        return loss_and_count

    # numba compiles at the first call, for half a minute on a busy machine
    tokens, ends = corpus.read_chunk(shards, *spans[0])
    train_chunk(tokens[:0], ends[:0], (0.0, 0.0), make_key("context words"))
    budget.start()
    for number in count(budget.begun):
        order = permutation(make_key("chunks", run.seed, number), len(spans)).tolist()

        def train(
            place: int, number: int = number, order: list[int] = order
        ) -> tuple[float, int, int]:
            done = done_at(number, place)
            if done == 1 and place:
                return 0.0, 0, 0
            chunk = order[place]
            start, stop = spans[chunk]
            loss_and_count = train_chunk(
                *corpus.read_chunk(shards, start, stop),
                (rate_at(done), rate_at(done_at(number, place + 1))),
                make_key("context words", run.seed, number, chunk),
            )
            return *loss_and_count, stop - start

        summed = np.sum(in_threads(train, range(len(spans)), run.workers), axis=0)
        loss, read = float(summed[0] / max(1, summed[1])), summed[2] / shards.num_tokens
        done = done_at(number + 1, 0)
        yield Pass(round(read * words), {"loss": loss, "learning_rate": rate_at(done)}, done)
        if done == 1:
            return


def initialize_glove(learner: Learner, run: GloveRun, shards: Shards, sources: RunSources) -> None:
    """Draw small random vectors of words and contexts, and set the encoder's vectors to their
    sums."""
    load_kernels()
    objective = cast(Cooccurrences, learner.objectives["cooccurrences"])
    objective.reset_parameters(torch.Generator().manual_seed(run.seed))
    cast(WordVectors, learner.encoder).table.weight.data.copy_(objective.vectors.data.sum(0))


def fit_glove(
    run: GloveRun, shards: Shards, learner: Learner, budget: PassBudget
) -> Iterator[Pass]:
    """Train GloVe pass by pass over the counted entries in random order. A resumed run counts them
    again."""
    kernels, counts = load_kernels(), corpus.count_words(shards)
    objective = cast(Cooccurrences, learner.objectives["cooccurrences"])
    tables = [each.data.numpy() for each in objective.parameters()]
    with tempfile.TemporaryDirectory(prefix=".cooccurrences-", dir=run.out) as folder:
        pairs = CountedPairs(Path(folder), run.memory_mb << 20)
        count_pairs(corpus.chunks(shards), counts, run.window, pairs)
        parts = pairs.shuffled(run.seed)
        for number in count(budget.begun):
            loss = entries = read = 0.0
            order_of_parts = permutation(make_key("parts", run.seed, number), len(parts)).tolist()
            for place, part in enumerate(order_of_parts):
                keys = np.fromfile(parts[part][0], np.int64)
                sums = np.fromfile(parts[part][1], np.float64)
                order = permutation(make_key("entries", run.seed, number, part), len(keys))

                def train(
                    start: int,
                    number: int = number,
                    place: int = place,
                    keys: Int64s = keys,
                    sums: Float64s = sums,
                    order: Int64s = order,
                ) -> tuple[float, int, int]:
                    begun = (place + start / len(keys)) / len(parts)
                    if begun and budget.done(number, begun) == 1:
                        return 0.0, 0, 0
                    rows = order[start : start + _SLICE]
                    settings = (run.most, run.power, run.learning_rate)
                    loss_and_entries: tuple[float, int] = kernels.train_cooccurrences(
                        keys, sums, rows, *tables, *settings
                    )
                    return *loss_and_entries, len(rows)

                summed = np.sum(in_threads(train, range(0, len(keys), _SLICE), run.workers), axis=0)
                loss, entries = loss + summed[0], entries + summed[1]
                read += summed[2] / len(keys) / len(parts)
            table = cast(WordVectors, learner.encoder).table.weight
            table.data.copy_(objective.vectors.data.sum(0))
            mean = {"loss": loss / max(1, entries), "entries": entries}
            done = budget.done(number + 1)
            yield Pass(round(read * counts.sum()), mean, done)
            if done == 1:
                return


def context_words(config: Word2VecConfig, encoder: Encoder) -> ContextWords:
    """Return the output vectors of word2vec and fastText."""
    return ContextWords(config)


def cooccurrences(config: GloveConfig, encoder: Encoder) -> Cooccurrences:
    """Return GloVe's vectors of words and contexts, and their biases."""
    return Cooccurrences(config)


WORD2VEC = System(
    row=MODELS["word2vec"],
    encoder=WordVectors,
    spec=word_vectors_spec,
    objectives={"context_words": context_words},
    fit=fit_word2vec,
)
FASTTEXT = System(
    row=MODELS["fasttext"],
    encoder=FastText,
    spec=word_vectors_spec,
    objectives={"context_words": context_words},
    initialize=initialize_fasttext,
    fit=fit_fasttext,
)
GLOVE = System(
    row=MODELS["glove"],
    encoder=WordVectors,
    spec=word_vectors_spec,
    objectives={"cooccurrences": cooccurrences},
    initialize=initialize_glove,
    fit=fit_glove,
)
FROM_FILES = System(row=MODELS["word-vectors"], encoder=WordVectors, spec=word_vectors_spec)
"""Vectors that `bertwright convert` read from a file of another program. No run trains them."""
DISTILLED = System(
    row=MODELS["model2vec"],
    encoder=WordVectors,
    spec=word_vectors_spec,
    layout=Model2VecLayout,
)
"""Token vectors that `bertwright convert --to static` distilled, or a folder of model2vec."""
