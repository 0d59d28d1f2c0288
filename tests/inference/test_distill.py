"""Token vectors distilled from an encoder: model2vec's folder, written and read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file

import bertwright
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError
from bertwright.inference.distill import distill, principal, weights

TEXTS = ["a b the c", "b,", "", "d é the"]


def by_model2vec(folder: Path, text: str) -> np.ndarray:
    """The vector of a text as model2vec computes it: known tokens, mean, length 1."""
    table = load_file(folder / "model.safetensors")["embeddings"]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    ids = [id for id in ids if id != tokenizer.token_to_id("[UNK]")]
    vector = table[ids].mean(0) if ids else np.zeros(table.shape[1], np.float32)
    return np.asarray(vector / (np.linalg.norm(vector) + 1e-32))


def test_the_folder_is_model2vecs(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "static"
    assert (
        run_verb(["convert", str(model_folder), str(out), "--to", "static", "--dimensions", "7"])
        == 0
    )
    content = json.loads((out / "config.json").read_text())
    assert (content["model_type"], content["hidden_dim"], content["normalize"]) == (
        "model2vec",
        7,
        True,
    )
    model = bertwright.load(out)
    expected = np.stack([by_model2vec(out, text) for text in TEXTS])
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
    raw = model.embed(TEXTS[:1], normalize=False)
    assert abs(float(np.linalg.norm(raw)) - 1) > 1e-3


def test_more_dimensions_than_the_model_has(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--dimensions is 25.* 24"):
        distill(model_folder, tmp_path / "static", 25)
    assert distill(model_folder, tmp_path / "static").shape[1] == 24


def test_a_token_is_its_vector_in_the_encoder(model_folder: Path, tmp_path: Path) -> None:
    table = distill(model_folder, tmp_path / "static", 24)
    teacher = bertwright.load(model_folder)
    tokenizer = teacher.tokenizer
    tokens = sorted(set(tokenizer.vocab.values()) - tokenizer.special_ids)
    letters = [id for id in tokens if len(tokenizer.tokens_of([id])[0]) == 1]
    unweighted = table[tokens] / weights(len(tokens))[:, None]
    # all components are kept, so distances are those of the encoder's vectors
    own = unweighted[[tokens.index(id) for id in letters]]
    vectors = teacher.embed(tokenizer.tokens_of(letters))
    for one, other in (own, vectors), (own[:5], vectors[:5]):
        np.testing.assert_allclose(
            np.linalg.norm(one[:, None] - one, axis=2),
            np.linalg.norm(other[:, None] - other, axis=2),
            atol=1e-4,
        )
    assert not table[sorted(tokenizer.special_ids)].any()
    spread = principal(np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32), 4).var(
        0
    )
    assert (np.diff(spread) <= 0).all()
    assert (np.diff(weights(9)) > 0).all()


def test_a_folder_of_model2vec_is_read(model_folder: Path, tmp_path: Path) -> None:
    distill(model_folder, tmp_path / "static", 5)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    table = load_file(tmp_path / "static" / "model.safetensors")["embeddings"]
    save_file({"embeddings": table.astype(np.float16)}, theirs / "model.safetensors")
    (theirs / "tokenizer.json").write_bytes((tmp_path / "static" / "tokenizer.json").read_bytes())
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "apply_pca": 5}
    config |= {"apply_zipf": True, "sif_coefficient": 1e-4, "hidden_dim": 5, "normalize": False}
    (theirs / "config.json").write_text(json.dumps(config))
    own = bertwright.load(tmp_path / "static").embed(TEXTS, normalize=False)
    np.testing.assert_allclose(bertwright.load(theirs).embed(TEXTS), own, atol=1e-2)
    (theirs / "config.json").write_text(json.dumps(config | {"hidden_dim": 6}))
    with pytest.raises(DataError, match="hidden_dim"):
        bertwright.load(theirs)


def test_what_is_refused(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dimensions"):
        distill(model_folder, tmp_path / "x", 0)
    distill(model_folder, tmp_path / "static", 3)
    with pytest.raises(ConfigError, match="without layers"):
        distill(tmp_path / "static", tmp_path / "again")
    words = ["convert", str(model_folder), str(tmp_path / "y"), "--dimensions", "3"]
    assert run_verb(words) == 2
