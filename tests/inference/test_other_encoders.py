"""Any encoder is embedded: one without a longest sequence, pooler, pairs or layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import of_model
from tests.inference.sums import model_of

LONG = " ".join("abcdefghij" * 5)


def test_a_long_text_is_one_sequence(model_folder: Path) -> None:
    model = model_of(model_folder, 1)
    ids = model.tokenizer.encode(LONG).ids
    table = model.runner.encoder.token.weight
    right = table[ids].sum(0)
    np.testing.assert_allclose(model.embed(["a", LONG], pooling="last")[1], right, atol=1e-5)
    (encoded,) = model.encode([LONG])
    assert encoded.layers.shape == (2, 52, 8)
    assert encoded.pooled is None
    np.testing.assert_allclose(encoded.layers[1, -1], right, atol=1e-5)
    (tokens,) = model.embedder().embed_tokens([LONG])
    np.testing.assert_allclose(tokens.vectors, encoded.layers[1], atol=1e-6)


def test_static_vectors_have_one_layer(model_folder: Path) -> None:
    model = model_of(model_folder, 0)
    found = model.embed(["a b", "b a"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_array_equal(model.embed(["a b", "b a"], 0, "first-last"), found)
    with pytest.raises(ConfigError, match="no layer -2"):
        model.embed(["a"], -2)


def test_layers_of_several_widths_are_taken_one_at_a_time(model_folder: Path) -> None:
    model = model_of(model_folder, 1, widths=(8, 4))
    with pytest.raises(ConfigError, match="8, 4 wide"):
        model.encode(["a"])
    model = model_of(model_folder, 1, widths=(8, 8))
    for layer in (0, 1):
        table = of_model(model, layer)
        row = model.tokenizer.framing.inside(1)[0]
        tokens = model.encode(["a"])[0].layers[layer]
        np.testing.assert_allclose(table.vectors[table.row["a"]], tokens[row][0], atol=1e-6)


def test_windows_of_layers_of_several_widths(model_folder: Path) -> None:
    model = model_of(model_folder, 1, widths=(8, 16))
    small, large, both = (
        model.embed([LONG], layers, "max+mean", max_length=20) for layers in (0, 1, [0, 1])
    )
    np.testing.assert_array_equal(both, np.concatenate([small, large], 1))


def test_an_encoder_of_one_segment_reads_no_pairs(model_folder: Path) -> None:
    model = model_of(model_folder, 1)
    for verb in (model.embed, model.encode):
        with pytest.raises(DataError, match="reads no pairs"):
            verb([("a", "b")])


def test_int8_is_of_bert_alone(model_folder: Path) -> None:
    model = model_of(model_folder, 1)
    with pytest.raises(ConfigError, match=r"8-bit.*BERT"):
        model.embed(["a"], precision="int8")
    assert model.embedder(VectorConfig((0,))).backend.name == "torch fp32"
