"""fastText as a system: word2vec whose words are means of rows of their character n-grams.

Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from bertwright.arrays import Int64s
from bertwright.config.runs.word_vectors import FastTextRun
from bertwright.data.shards import Shards
from bertwright.data.word_vectors.corpus import count_words
from bertwright.data.word_vectors.subwords import word_units
from bertwright.models.word_vectors import FastText
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Pass
from bertwright.recipes.systems import System, initialize_as_published
from bertwright.recipes.word_vectors import word2vec
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def initialize(learner: Learner, run: FastTextRun, shards: Shards) -> None:
    """Small random rows, and words made of them; outputs of zero."""
    initialize_as_published(learner, run, shards)
    encoder = cast(FastText, learner.encoder)
    counts = count_words(shards)
    encoder.counts.copy_(torch.from_numpy(counts))
    encoder.set_table(*_units(encoder, shards))


def fit(run: FastTextRun, shards: Shards, learner: Learner, done: int) -> Iterator[Pass]:
    """Pass by pass; after each the words' vectors are made of their rows."""
    encoder = cast(FastText, learner.encoder)
    starts, units = _units(encoder, shards)
    for each in word2vec.fit_context_words(run, shards, learner, encoder.rows, starts, units, done):
        encoder.set_table(starts, units)
        yield each


FASTTEXT = System(initialize=initialize, fit=fit)


def _units(encoder: FastText, shards: Shards) -> tuple[Int64s, Int64s]:
    config = encoder.config
    words = load_tokenizer(shards.tokenizer_folder).tokens_of(range(config.vocab_size))
    return word_units(words, shards.special_ids, config.buckets, config.min_n, config.max_n)
