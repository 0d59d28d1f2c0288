"""Folders of sentence-transformers: the same vectors both ways, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bertwright.checkpoint.checkpoint import find_checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.sentence_transformers import (
    EmbeddingDefaults,
    read_defaults,
    write_defaults,
)
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference.model import load

TEXTS = ["a b c.", "what is this?", "z", "the quick brown fox!"]


@pytest.fixture
def sentences(folder: Path, tmp_path: Path) -> Path:
    convert(folder, tmp_path / "st", "sentence-transformers")
    return tmp_path / "st"


def put(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def test_defaults(sentences: Path, folder: Path) -> None:
    assert read_defaults(sentences) == EmbeddingDefaults("mean", False, 17, (-1,))
    assert read_defaults(folder) is None


@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_same_vectors(
    folder: Path, tmp_path: Path, pooling: str, normalize: bool, recwarn: pytest.WarningsRecorder
) -> None:
    library = pytest.importorskip("sentence_transformers")
    out = tmp_path / "st"
    vectors = {"pooling": pooling, "normalize": normalize, "max_length": 9}
    convert(folder, out, "sentence-transformers", vectors=vectors)
    theirs = library.SentenceTransformer(str(out), device="cpu")
    assert theirs.max_seq_length == 9
    expected = theirs.encode(TEXTS[:3])
    ours = load(out).embed(TEXTS[:3], layers=[-1], pooling=pooling, normalize=normalize)
    assert np.abs(ours - expected).max() < 1e-5
    assert not [w for w in recwarn if "pooling" in str(w.message).lower()]
    # and what it saves itself, in the form of its version, is read
    theirs.save(str(tmp_path / "theirs"))
    wanted = EmbeddingDefaults(pooling, normalize, 9)  # type: ignore[arg-type]
    assert read_defaults(tmp_path / "theirs") == wanted
    again = load(tmp_path / "theirs").embed(TEXTS[:3], [-1], pooling, normalize)
    assert np.abs(again - expected).max() < 1e-5


def test_the_oldest_form(sentences: Path) -> None:
    """The Transformer in a folder of its own."""
    inner = sentences / "0_Transformer"
    inner.mkdir()
    for path in list(sentences.iterdir()):
        if path.is_file() and path.name != "modules.json":
            path.rename(inner / path.name)
    modules = json.loads((sentences / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    put(sentences / "modules.json", modules)
    assert find_checkpoint(sentences) == inner
    assert read_defaults(sentences) == read_defaults(inner) == EmbeddingDefaults(max_length=17)
    load(sentences)


@pytest.mark.parametrize(
    ("content", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "cls", "embedding_dimension": 24}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
        ({}, "mean"),
    ],
)
def test_forms_of_pooling(sentences: Path, content: Any, pooling: str) -> None:
    put(sentences / "1_Pooling" / "config.json", content)
    found = read_defaults(sentences)
    assert found is not None
    assert found.pooling == pooling


@pytest.mark.parametrize(
    "content",
    [
        {"pooling_mode": "weightedmean"},
        {"pooling_mode": 3},
        {"pooling_mode": ["cls", "mean"]},
        {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
        {"pooling_mode_lasttoken": True},
    ],
)
def test_poolings_that_are_not_ours(sentences: Path, content: Any) -> None:
    put(sentences / "1_Pooling" / "config.json", content)
    with pytest.raises(DataError, match=r"the pooling of .* expected one of mean, max, cls"):
        read_defaults(sentences)


def test_lengths(sentences: Path) -> None:
    sizes = sentences / "sentence_bert_config.json"
    for given, length in ((5, 5), (9999, 17), (None, 17)):
        put(sizes, {"max_seq_length": given})
        assert read_defaults(sentences) == EmbeddingDefaults(max_length=length)
    put(sentences / "tokenizer_config.json", {"model_max_length": 7})
    assert read_defaults(sentences) == EmbeddingDefaults(max_length=7)
    put(sizes, {"max_seq_length": "long"})
    for value in ("long", 2, 2.5, float("inf"), float("nan"), True, [9]):
        put(sizes, {"max_seq_length": value})
        with pytest.raises(DataError, match=r"'max_seq_length' in .*/sentence_bert_config.json is"):
            read_defaults(sentences)
    put(sizes, {})
    put(sentences / "tokenizer_config.json", {"model_max_length": 1e30})
    assert read_defaults(sentences) == EmbeddingDefaults(max_length=17)
    put(sentences / "tokenizer_config.json", {"model_max_length": 7.5})
    with pytest.raises(DataError, match=r"'model_max_length' in .*/tokenizer_config.json is 7.5"):
        read_defaults(sentences)
    put(sizes, {"do_lower_case": True})
    put(sentences / "tokenizer_config.json", {"do_lower_case": False})
    with pytest.raises(DataError, match="in lower case before a tokenizer that tells cases"):
        read_defaults(sentences)


@pytest.mark.parametrize(
    ("modules", "error", "message"),
    [
        ({}, DataError, "expected a list of parts"),
        ([], DataError, "expected a list of parts"),
        ([3], DataError, "expected a type and a path"),
        ([{"type": "x.Transformer", "path": "../other"}], IntegrityError, "a folder beside it"),
        ([{"type": "x.Transformer", "path": ".."}], IntegrityError, "a folder beside it"),
        ([{"type": "x.Transformer", "path": "/etc"}], IntegrityError, "a folder beside it"),
        ([{"type": "a.Transformer", "path": ""}], DataError, "has the parts Transformer;"),
        (
            [{"type": f"a.{kind}", "path": ""} for kind in ("Transformer", "Pooling", "Dense")],
            DataError,
            "has the parts Transformer, Pooling, Dense",
        ),
    ],
)
def test_parts_that_are_not_read(
    sentences: Path, modules: Any, error: type[Exception], message: str
) -> None:
    put(sentences / "modules.json", modules)
    with pytest.raises(error, match=message):
        read_defaults(sentences)


def test_positions_that_are_no_number(sentences: Path) -> None:
    config = json.loads((sentences / "config.json").read_text())
    put(sentences / "config.json", {**config, "max_position_embeddings": "abc"})
    with pytest.raises(DataError, match=r"'max_position_embeddings' in .*/config.json is 'abc'"):
        read_defaults(sentences)


@pytest.mark.parametrize("content", [{"webpack": True}, [], [3], [{"type": "x", "path": "../y"}]])
def test_a_file_of_that_name_that_is_of_something_else(folder: Path, content: Any) -> None:
    put(folder.parent / "modules.json", content)
    assert read_defaults(folder) is None
    load(folder)


def test_what_another_format_has_no_place_for(folder: Path, tmp_path: Path) -> None:
    vectors = {"pooling": "cls", "normalize": True, "max_length": 9}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=vectors)
    note = "not carried over: how vectors are made (cls of at most 9 tokens, normalized); "
    for to in ("huggingface", "tensorflow"):
        done = convert(tmp_path / "st", tmp_path / to, to)  # type: ignore[arg-type]
        assert note + "--to sentence-transformers keeps it" in done.notes
    done = convert(tmp_path / "st", tmp_path / "again", "sentence-transformers")
    assert not [line for line in done.notes if "vectors" in line]
    assert read_defaults(tmp_path / "again") == EmbeddingDefaults("cls", True, 9)


@pytest.mark.slow  # a process that imports torch
@pytest.mark.parametrize("inner", [False, True])
def test_defaults_beside_a_pickle(sentences: Path, tmp_path: Path, inner: bool) -> None:
    put(sentences / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    place = sentences
    if inner:
        place = sentences / "0_Transformer"
        place.mkdir()
        for path in [p for p in sentences.iterdir() if p.is_file() and p.name != "modules.json"]:
            path.rename(place / path.name)
        modules = json.loads((sentences / "modules.json").read_text())
        modules[0]["path"] = "0_Transformer"
        put(sentences / "modules.json", modules)
    weights = place / "model.safetensors"
    torch.save(load_file(weights), place / "pytorch_model.bin")
    weights.unlink()
    convert(sentences, tmp_path / "out", "sentence-transformers")
    assert read_defaults(tmp_path / "out") == EmbeddingDefaults("cls", False, 17)


def test_prompts(sentences: Path) -> None:
    path = sentences / "config_sentence_transformers.json"
    put(path, {"prompts": {"query": "Q: "}, "default_prompt_name": None})
    assert read_defaults(sentences) is not None
    put(path, {"prompts": {"query": "Q: "}, "default_prompt_name": "query"})
    with pytest.raises(DataError, match="puts 'Q: ' before every text"):
        read_defaults(sentences)


def test_what_is_written(tmp_path: Path) -> None:
    write_defaults(tmp_path, EmbeddingDefaults("max", True, 64), 24)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [part["path"] for part in modules] == ["", "1_Pooling", "2_Normalize"]
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling["word_embedding_dimension"] == 24
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_max_tokens"]


@pytest.mark.parametrize("length", [2, 18])
def test_a_length_that_the_model_has_not(folder: Path, tmp_path: Path, length: int) -> None:
    with pytest.raises(ConfigError, match=f"max_length is {length}; expected 3 to 17"):
        convert(folder, tmp_path / "x", "sentence-transformers", vectors={"max_length": length})
    assert not (tmp_path / "x").exists()
