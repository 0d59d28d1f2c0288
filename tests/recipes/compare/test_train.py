"""How large a model of a rung is said to be."""

from __future__ import annotations

from bertwright.models.catalogue import MODELS
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.recipes.compare.train import numbers_of


def test_rows_of_character_ngrams_count() -> None:
    config = FastTextConfig(vocab_size=11, hidden_size=4, buckets=30)
    learner = MODELS["fasttext"].load().make_learner(config, [])
    assert numbers_of(learner) == 4 * 11 + 4 * (11 + 30)
