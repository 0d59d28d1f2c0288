"""What a maker of vectors refuses, and what it is bounded by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.checkpoint.sentence_transformers.dense import Dense, DenseLayer
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder, normalized
from bertwright.inference.vectors.whitening import Whitening

LONG = "a b c d e f g h i j k l m n o p q"  # 17 tokens in windows of 10
TEXTS = ["a b", LONG, "the"]
CONFIG = VectorConfig((-1,))


def test_a_whitening_says_how_wide_vectors_are(
    embedder: Embedder, model_folder: Path, tmp_path: Path
) -> None:
    for given in (24, 30):
        kernel = np.eye(given, 5, dtype=np.float32)
        Whitening(np.zeros(given, np.float32), kernel).save(tmp_path / f"{given}.npz")
    maker = load(model_folder, device="cpu").embedder(CONFIG, whitening=tmp_path / "24.npz")
    assert maker.width == 5
    np.testing.assert_allclose(maker.embed([LONG]), embedder.embed([LONG])[:, :5], atol=1e-6)
    with pytest.raises(ConfigError, match=r"30 numbers.*24"):
        load(model_folder, device="cpu").embedder(CONFIG, whitening=tmp_path / "30.npz")


def test_what_is_done_to_vectors_has_an_order(
    embedder: Embedder, model_folder: Path, tmp_path: Path
) -> None:
    """The first numbers are kept, then whitened, then scaled to length 1."""
    chance = np.random.default_rng(0)
    mean, kernel = (chance.standard_normal(size).astype(np.float32) for size in (6, (6, 4)))
    Whitening(mean, kernel).save(tmp_path / "w.npz")
    config = replace(CONFIG, dimensions=6, normalize=True)
    maker = load(model_folder, device="cpu").embedder(config, whitening=tmp_path / "w.npz")
    raw = embedder.embed(TEXTS)
    right = (raw[:, :6] - mean) @ kernel
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    np.testing.assert_allclose(maker.embed(TEXTS), right, atol=1e-5)
    np.testing.assert_allclose(maker.raw().embed(TEXTS), raw[:, :6], atol=1e-6)
    with pytest.raises(ConfigError, match="pooling none"):
        maker.embed_tokens(TEXTS)


def test_rows_of_any_length_are_scaled_to_1() -> None:
    rows = np.array([[3, 4], [0, 0], [-1e-15, 0], [0, 1e15]], np.float32)
    right = [[0.6, 0.8], [0, 0], [-1, 0], [0, 1]]
    np.testing.assert_allclose(normalized(rows), right, atol=1e-6)


def test_dense_layers_fit_the_vectors(embedder: Embedder) -> None:
    layer = DenseLayer(Dense(24, 7), torch.ones(7, 24), torch.ones(7))

    def made(config: VectorConfig) -> Embedder:
        return Embedder(embedder.backend, embedder.tokenizer, embedder.spec, config, dense=[layer])

    assert made(replace(CONFIG, dense=7)).embed([LONG]).shape == (1, 7)
    with pytest.raises(ConfigError, match=r"dense is 5: .* \[7\], .* 24"):
        made(replace(CONFIG, dense=5))
    with pytest.raises(ConfigError, match=r"take \[24\] .* vectors have 48"):
        made(replace(CONFIG, dense=7, layers=(0, 1)))


@pytest.mark.parametrize("truncate", [False, True])
def test_no_piece_is_longer_than_the_model_reads(embedder: Embedder, truncate: bool) -> None:
    own = embedder.with_config(replace(CONFIG, truncate=truncate))
    more = embedder.with_config(replace(CONFIG, truncate=truncate, max_length=99))
    np.testing.assert_array_equal(more.embed([LONG]), own.embed([LONG]))


def test_what_a_text_without_words_is_read_as(embedder: Embedder) -> None:
    assert embedder.describe_empty().endswith(" [CLS] [SEP]")
    prompted = embedder.with_config(replace(CONFIG, prompt="the "))
    assert prompted.describe_empty().endswith(" [CLS] the [SEP]")
    means, ends = (embedder.with_config(replace(CONFIG, pooling=each)) for each in ("mean", "cls"))
    for maker in (means, ends):
        maker.frame = (1, 1)  # as of a table of word vectors
    assert "zeros" in means.describe_empty()
    assert not means.embed([""]).any()
    assert ends.describe_empty().endswith(" [CLS] [SEP]")
    assert ends.embed([""]).any()
