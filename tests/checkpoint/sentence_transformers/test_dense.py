"""Dense layers of sentence-transformers: by hand, written and read, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.inspection import inspect
from bertwright.checkpoint.sentence_transformers.dense import (
    Dense,
    read_config,
    read_layer,
)
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference.model import load
from tests.checkpoint.conftest import change as edit
from tests.checkpoint.conftest import embedding_of, rewrite
from tests.checkpoint.sentence_transformers.sample import TANH, random_layer
from tests.raising import raises

TEXTS = ["a b c.", "what is this?", "z", "a b c d e f g h i j k l m n o p q r s"]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    random_layer(tmp_path / "2_Dense", 24, 7)
    return tmp_path / "2_Dense"


@pytest.mark.parametrize("normalize", [False, True])
def test_by_hand(folder: Path, tmp_path: Path, normalize: bool) -> None:
    """Behind the pooling, windows merged, before what scales; two in a row."""
    layers = random_layer(tmp_path / "one", 48, 31), random_layer(tmp_path / "two", 31, 5, False)
    told = {"pooling": "cls+mean", "dense": layers, "dimensions": 4, "normalize": normalize}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    names = sorted(path.name for path in (tmp_path / "st").iterdir() if path.is_dir())
    assert names == ["1_Pooling", "2_Dense", "3_Dense", *["4_Normalize"] * normalize]
    found = embedding_of(tmp_path / "st")
    assert found is not None
    assert (found.dense, found.dimensions) == (layers, 4)
    embedder = load(tmp_path / "st", device="cpu").embedder()
    assert embedder.width == 4
    x: Any = embedder.with_config(replace(embedder.config, dense=0, dimensions=None))
    x = x.raw().embed(TEXTS).astype(np.float64)
    for each in map(read_layer, layers):
        x = x @ each.weight.double().numpy().T
        x = np.tanh(x if each.bias is None else x + each.bias.double().numpy())
    x = x[:, :4]
    right = x / np.linalg.norm(x, axis=1, keepdims=True) if normalize else x
    np.testing.assert_allclose(embedder.embed(TEXTS), right, atol=1e-5)
    whole = embedder.with_config(replace(embedder.config, truncate=False))
    assert np.abs(whole.embed(TEXTS) - embedder.embed(TEXTS))[:3].max() == 0
    # what is read again is written the same
    convert(tmp_path / "st", tmp_path / "again", "sentence-transformers")
    for name in ("2_Dense", "3_Dense"):
        for file in ("config.json", "model.safetensors"):
            paths = [tmp_path / place / name / file for place in ("st", "again")]
            assert paths[0].read_bytes() == paths[1].read_bytes()
    told_of = inspect(tmp_path / "st").embedding
    assert told_of is not None
    assert told_of["dense"] == ["48 to 31, Tanh", "31 to 5, Tanh"]


def test_other_layers_and_poolings_have_no_dense(folder: Path, tmp_path: Path) -> None:
    """They were taught on the folder's own."""
    dense = (random_layer(tmp_path / "one", 24, 31),)
    told = {"pooling": "cls", "dense": dense, "dimensions": 9}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    own = load(tmp_path / "st", device="cpu").embedder().config
    assert (own.dense, own.dimensions) == (31, 9)
    assert own.over((-1,), "cls", normalize=True, prompt="q ").dense == 31
    for asked in ({"layers": (-2,)}, {"pooling": "mean"}, {"layers": (0, 1)}):
        other = own.over(**asked)  # type: ignore[arg-type]
        assert (other.dense, other.dimensions) == (0, None)
        assert own.over(**asked, dimensions=3).dimensions == 3  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"dense is 31: .* take \[24\] numbers and give \[31\]"):
        load(tmp_path / "st").embedder(replace(own, layers=(0, 1)))
    with pytest.raises(ConfigError, match="dimensions is 32; expected 1 to 31"):
        load(tmp_path / "st").embedder(replace(own, dimensions=32))


def test_half_precision(layer: Path) -> None:
    right = read_layer(read_config(layer))
    tensors = {name: value.half() for name, value in right.tensors.items()}
    save_file(tensors, layer / "model.safetensors")
    found = read_layer(read_config(layer))
    assert found.weight.dtype == torch.float32
    torch.testing.assert_close(found.weight, right.weight, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in_features": 0}, "'in_features' in .* is 0; expected 1 to 65,536"),
        ({"in_features": 10**12}, "is 1000000000000; expected 1 to 65,536"),
        ({"out_features": True}, "'out_features' in .* is True"),
        ({"out_features": "7"}, "'out_features' in .* is '7'"),
        ({"out_features": None}, "'out_features' in .* is None"),
        ({"bias": 1}, "'bias' in .* is 1; expected true or false"),
        ({"activation_function": "os.system"}, "is 'os.system'; expected one of torch.nn"),
        ({"activation_function": None}, "'activation_function' in .* is None"),
        ({"activation_function": ["a"]}, "'activation_function' in"),
        ({"use_residual": True}, "'use_residual' in .* is True; only False is read"),
        ({"module_input_name": "token_embeddings"}, "only 'sentence_embedding' is read"),
        ({"module_output_name": "other"}, "only 'sentence_embedding' is read"),
        ({"scale": 2}, "has the unknown key 'scale'"),
    ],
)
def test_configurations_that_are_refused(layer: Path, change: Any, message: str) -> None:
    edit(layer / "config.json", **change)
    raises(DataError, message, read_config, layer)


@pytest.mark.parametrize(
    "more", [{}, {"module_input_name": "sentence_embedding", "module_output_name": None}]
)
def test_what_versions_leave_open(layer: Path, more: dict[str, Any]) -> None:
    (layer / "config.json").write_text(json.dumps({"in_features": 24, "out_features": 7, **more}))
    assert read_config(layer) == Dense(24, 7, True, TANH)


ZERO = {"linear.weight": torch.zeros(7, 24), "linear.bias": torch.zeros(7)}


@pytest.mark.parametrize(
    ("tensors", "error", "message"),
    [
        ({"linear.bias": None}, IntegrityError, "tells of 'linear.weight'"),
        ({"linear.weight": torch.zeros(24, 7)}, IntegrityError, r"\[24, 7\].*of .*\[7, 24\]"),
        ({"linear.weight": torch.full((7, 24), torch.nan)}, DataError, "not finite"),
        ({"linear.weight": torch.zeros(7, 24).char()}, DataError, "quantized"),
    ],
)
def test_weights_that_are_refused(
    layer: Path, tensors: Any, error: type[Exception], message: str
) -> None:
    rewrite(layer, {name: x for name, x in (ZERO | tensors).items() if x is not None})
    raises(error, message, read_layer, read_config(layer))


@pytest.fixture
def sentences(folder: Path, tmp_path: Path) -> Path:
    """A folder with a dense layer of 24 to 7 numbers."""
    told = {"pooling": "cls", "dense": (random_layer(tmp_path / "one", 24, 7),)}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    return tmp_path / "st"


def test_sizes_that_do_not_follow(sentences: Path) -> None:
    (sentences / "1_Pooling" / "config.json").write_text('{"pooling_mode": ["cls", "max"]}')
    raises(DataError, "24.*48 numbers", embedding_of, sentences)
    # another model is named first
    (sentences / "config.json").write_text('{"model_type": "xlnet", "d_model": 24}')
    with pytest.raises(DataError, match=r"is 'xlnet'; expected .*bert"):
        embedding_of(sentences)


def test_weights_that_are_missing(layer: Path) -> None:
    (layer / "model.safetensors").unlink()
    raises(DataError, "missing", read_layer, read_config(layer))


def test_a_link_out_of_the_folder(sentences: Path, tmp_path: Path) -> None:
    path = sentences / "2_Dense" / "model.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="is a link out of its folder"):
        load(sentences).embedder()


def test_a_pickle_is_opened_by_convert_alone(sentences: Path, tmp_path: Path) -> None:
    right = load(sentences, device="cpu").embed(TEXTS)
    (sentences / "MANIFEST.json").unlink()
    place = sentences / "2_Dense"
    torch.save(read_layer(read_config(place)).tensors, place / "pytorch_model.bin")
    (place / "model.safetensors").unlink()
    with pytest.raises(DataError, match="bertwright convert SRC DST"):
        load(sentences).embedder()
    convert(sentences, tmp_path / "out", "sentence-transformers")
    found = load(tmp_path / "out", device="cpu").embed(TEXTS)
    np.testing.assert_array_equal(found, right)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
