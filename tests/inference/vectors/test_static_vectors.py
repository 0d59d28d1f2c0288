"""Means over the tokens of a text: of no token that a model was never trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bertwright
from bertwright.models.nnlm.config import NnlmConfig
from bertwright.models.word_vectors.config import GloveConfig, Word2VecConfig
from tests.inference.vectors.sample import ELMO, LSTM, write


@pytest.mark.parametrize("config", [Word2VecConfig(9, 5), GloveConfig(9, 5), NnlmConfig(9, 5)])
def test_a_static_vector_is_the_mean_of_its_words(tmp_path: Path, config: object) -> None:
    model = bertwright.load(write(tmp_path / "model", config))
    table = model.runner.encoder.token_embedding()
    assert table is not None
    rows = table.weight.detach().numpy()
    vectors = model.embed(["cat", "the dog sat", "unseen", ""])
    np.testing.assert_array_equal(vectors[0], rows[6])
    np.testing.assert_allclose(vectors[1], rows[[5, 7, 8]].mean(0), rtol=1e-5)
    # [UNK] is left out of the text of word2vec and GloVe
    unknown = 1 if isinstance(config, NnlmConfig) else 0
    np.testing.assert_array_equal(vectors[2:], [unknown * rows[1], 0 * rows[1]])
    if not unknown:
        np.testing.assert_array_equal(model.embed(["unseen cat"], pooling="max")[0], rows[6])
        pooled = model.embed(["x y z w the x y z"], max_length=4, pooling="mean-max")[0]
        np.testing.assert_allclose(pooled, [*rows[5], *rows[5]], rtol=1e-6)
    np.testing.assert_array_equal(model.embed(["the dog"], pooling="max")[0], rows[[5, 7]].max(0))
    in_windows = model.embed(["the dog sat the cat"], max_length=4)[0]
    np.testing.assert_allclose(in_windows, rows[[5, 7, 8, 5, 6]].mean(0), rtol=1e-5)
    weighted = model.embed(["the dog sat the cat"], max_length=4, pooling="weighted")[0]
    expected = np.average(rows[[5, 7, 8, 5, 6]], 0, weights=[1, 2, 3, 4, 5])
    np.testing.assert_allclose(weighted, expected, rtol=1e-5)


@pytest.mark.parametrize(("config", "begin"), [(ELMO, 1), (LSTM, 0)])
def test_a_mean_leaves_out_what_was_never_trained(
    tmp_path: Path, config: object, begin: int
) -> None:
    model = bertwright.load(write(tmp_path / "model", config))
    text = "the cat sat"
    embedder = model.embedder(model.vectors.over(pooling="none"))
    (tokens,) = embedder.embed_tokens([text])
    assert tokens.tokens == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    expected = tokens.vectors[begin:-1].mean(0)
    np.testing.assert_allclose(model.embed([text, "dog"])[0], expected, rtol=1e-5, atol=1e-7)
