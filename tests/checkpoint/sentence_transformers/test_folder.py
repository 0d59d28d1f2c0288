"""Folders of sentence-transformers: the same vectors both ways, and what is refused."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.atomic import write_manifest
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.inspection import inspect
from bertwright.checkpoint.sentence_transformers.dense import Dense, DenseLayer, write_layer
from bertwright.checkpoint.sentence_transformers.folder import (
    EmbeddingDefaults,
    write_defaults,
)
from bertwright.cli.app import run
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference.model import load
from tests.checkpoint.conftest import embedding_of
from tests.raising import raises

OURS = "sentence_transformers.models.{}"


@pytest.fixture
def sentences(folder: Path, tmp_path: Path) -> Path:
    """A folder without a manifest, as sentence-transformers writes it; the tests change it."""
    convert(folder, tmp_path / "st", "sentence-transformers")
    (tmp_path / "st" / "MANIFEST.json").unlink()
    return tmp_path / "st"


def put(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def parts(*kinds: str) -> list[dict[str, str]]:
    """What `modules.json` says of parts that all lie in the folder itself."""
    return [{"type": OURS.format(kind), "path": ""} for kind in kinds]


def test_defaults(sentences: Path, folder: Path) -> None:
    assert embedding_of(sentences) == EmbeddingDefaults("mean", False, 17, (-1,))
    assert embedding_of(folder) is None


@pytest.mark.parametrize(
    "name",
    [
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "3_Normalize/config.json",
    ],
)
def test_every_file_is_that_of_the_manifest(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "dense").mkdir()
    dense = Dense(24, 7, False, folder=tmp_path / "dense")
    write_layer(tmp_path / "dense", DenseLayer(dense, torch.ones(7, 24), None))
    told = {"dense": (dense,), "prompts": {"q": "q: "}, "normalize": True}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    load(tmp_path / "st")
    path = tmp_path / "st" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    raises(IntegrityError, path.name, load, tmp_path / "st")
    assert not inspect(tmp_path / "st").loads
    path.unlink()
    raises(IntegrityError, path.name, load, tmp_path / "st")


def test_a_part_that_the_manifest_does_not_list(folder: Path) -> None:
    """It changes vectors, as a changed file does."""
    write_manifest(folder)
    write_defaults(folder, EmbeddingDefaults("max", max_length=9), 24)
    raises(IntegrityError, "modules.json", load, folder)


def test_a_part_that_is_not_read_does_not_matter_elsewhere(
    sentences: Path, folder: Path, tmp_path: Path
) -> None:
    modules = json.loads((sentences / "modules.json").read_text())
    modules.append({"type": OURS.format("LSTM"), "path": "2_LSTM"})
    put(sentences / "modules.json", modules)
    raises(DataError, "LSTM", convert, sentences, tmp_path / "no", "sentence-transformers")
    found = convert(sentences, tmp_path / "out", "huggingface")
    assert any("vectors" in note for note in found.notes)
    assert load(tmp_path / "out").config == load(folder).config


def test_far_too_many_parts(sentences: Path) -> None:
    """They are counted, not listed."""
    put(sentences / "modules.json", parts(*["Dense"] * 100_001))
    with pytest.raises(DataError, match="100,001") as raised:
        load(sentences)
    assert len(str(raised.value)) < 300


def test_what_a_folder_says_is_read_when_it_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dense").mkdir()
    dense = Dense(24, 7, False, folder=tmp_path / "dense")
    write_layer(tmp_path / "dense", DenseLayer(dense, torch.eye(24)[:7], None))
    told = {"dense": (dense,), "pooling": "max", "prompts": {"q": "q: "}, "normalize": True}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    monkeypatch.chdir(tmp_path)
    before, model = load("st", device="cpu").embed(["a b c"]), load("st", device="cpu")
    shutil.rmtree("st")
    monkeypatch.chdir("/")
    assert (model.vectors.pooling, model.vectors.normalize) == ("max", True)
    assert (model.says_vectors, model.prompts) == (True, {"q": "q: "})
    assert (model.embed(["a b c"]) == before).all()


def test_the_oldest_form(sentences: Path) -> None:
    modules = json.loads((sentences / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    put(sentences / "modules.json", modules)
    raises(DataError, "as before version 2 of sentence-transformers", load, sentences)


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.safetensors"])
def test_the_commands_convert_a_table_of_word_vectors(tmp_path: Path, weights: str) -> None:
    root, rows = tmp_path / "st", torch.arange(6.0).reshape(3, 2) + 0.25
    part = root / "0_WordEmbeddings"
    part.mkdir(parents=True)
    kind = "sentence_transformers.models.WordEmbeddings"
    put(root / "modules.json", [{"idx": 0, "name": "0", "path": part.name, "type": kind}])
    put(part / "whitespacetokenizer_config.json", {"vocab": ["a", "bird", "c"]})
    save = save_file if weights == "model.safetensors" else torch.save
    save({"emb_layer.weight": rows}, part / weights)
    with pytest.raises(DataError) as caught:
        load(root)
    program, _, convert_words = str(caught.value).partition("python -c ")[2].partition(" && ")
    command = f"{shlex.quote(sys.executable)} -c {program}"
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert convert_words == "bertwright convert words.txt OUT"
    assert run(["convert", str(tmp_path / "words.txt"), str(tmp_path / "out")]) == 0
    assert load(tmp_path / "out").embed(["bird"]).tolist() == [rows[1].tolist()]


def test_a_model_within_one_of_the_same_name(sentences: Path) -> None:
    """It is no part: the Transformer of the outer one lies in the outer folder itself."""
    inner = sentences / sentences.name
    shutil.copytree(sentences, inner)
    (inner / "modules.json").unlink()
    assert embedding_of(inner) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "cls", "embedding_dimension": 24}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"pooling_mode": "weightedmean"}, "weighted"),
        ({"pooling_mode": ["mean", "cls"], "include_prompt": True}, "mean+cls"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "max+mean"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean-sqrt"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_cls_token": True}, "cls+last"),
        ({}, "mean"),
    ],
)
def test_forms_of_pooling(sentences: Path, content: Any, pooling: str) -> None:
    put(sentences / "1_Pooling" / "config.json", content)
    found = embedding_of(sentences)
    assert found is not None
    assert found.pooling == pooling


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pooling_mode": "splade"}, "the pooling of .* is 'splade'; expected one or more of cls"),
        ({"pooling_mode": 3}, "the pooling of .* is 3"),
        ({"pooling_mode": []}, "the pooling of"),
        ({"pooling_mode": [["cls"]]}, "the pooling of"),
        ({"pooling_mode": ["cls", "cls"]}, "the pooling of"),
        ({"pooling_mode_cls_token": 1}, "'pooling_mode_cls_token' in .* is 1; expected true or"),
        ({"include_prompt": "no"}, "'include_prompt' in .* is 'no'; expected true"),
        ({"include_prompt": False}, "'include_prompt' in .* is False; expected true"),
        ({"pooling_mode_attention": True}, "has the unknown key 'pooling_mode_attention'"),
    ],
)
def test_poolings_that_are_not_ours(sentences: Path, content: Any, message: str) -> None:
    put(sentences / "1_Pooling" / "config.json", content)
    raises(DataError, message, embedding_of, sentences)


def test_lengths(sentences: Path) -> None:
    sizes = sentences / "sentence_bert_config.json"
    for given, length in ((5, 5), (9999, 17), (None, 17)):
        put(sizes, {"max_seq_length": given})
        assert embedding_of(sentences) == EmbeddingDefaults(max_length=length)
    put(sentences / "tokenizer_config.json", {"model_max_length": 7})
    assert embedding_of(sentences) == EmbeddingDefaults(max_length=7)
    put(sizes, {"max_seq_length": "long"})
    for value in ("long", 2, 2.5, float("inf"), float("nan"), True, [9]):
        put(sizes, {"max_seq_length": value})
        with pytest.raises(DataError, match=r"'max_seq_length' in .*/sentence_bert_config.json"):
            embedding_of(sentences)
    put(sizes, {})
    put(sentences / "tokenizer_config.json", {"model_max_length": 1e30})
    assert embedding_of(sentences) == EmbeddingDefaults(max_length=17)
    put(sentences / "tokenizer_config.json", {"model_max_length": 7.5})
    with pytest.raises(DataError, match=r"'model_max_length' in .*/tokenizer_config.json is 7.5"):
        embedding_of(sentences)
    put(sizes, {"do_lower_case": True})
    put(sentences / "tokenizer_config.json", {"do_lower_case": False})
    raises(DataError, "lower case", embedding_of, sentences)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "error", "message"),
    [
        ({}, DataError, "expected a list of parts"),
        ([], DataError, "expected a list of parts"),
        ([3], DataError, "expected a type and a path"),
        ([{"type": OURS.format("Transformer"), "path": "../other"}], IntegrityError, "beside it"),
        ([{"type": OURS.format("Transformer"), "path": ".."}], IntegrityError, "beside it"),
        ([{"type": OURS.format("Transformer"), "path": "/etc"}], IntegrityError, "beside it"),
        (
            [{"type": "custom_st.Transformer", "path": ""}],
            DataError,
            "has the parts custom_st.Tran",
        ),
        (parts("Transformer"), DataError, "has the parts Transformer;"),
        (
            parts("Transformer", "Pooling", "LSTM"),
            DataError,
            "the parts Transformer, Pooling, LSTM",
        ),
        (parts("Transformer", "Pooling", "Normalize", "Dense"), DataError, "Normalize, Dense;"),
        (parts("Transformer", "Dense", "Pooling"), DataError, "Dense, Pooling;"),
    ],
)
def test_parts_that_are_not_read(
    sentences: Path, modules: Any, error: type[Exception], message: str
) -> None:
    put(sentences / "modules.json", modules)
    raises(error, message, embedding_of, sentences)


def test_positions_that_are_no_number(sentences: Path) -> None:
    config = json.loads((sentences / "config.json").read_text())
    put(sentences / "config.json", {**config, "max_position_embeddings": "abc"})
    with pytest.raises(DataError, match=r"/config.json.*'max_position_embeddings'.*'abc'"):
        embedding_of(sentences)


@pytest.mark.parametrize("content", [{"webpack": True}, [], [3], [{"type": "x", "path": "../y"}]])
def test_a_file_of_that_name_that_is_of_something_else(folder: Path, content: Any) -> None:
    put(folder.parent / "modules.json", content)
    assert embedding_of(folder) is None
    load(folder)


def test_what_another_format_has_no_place_for(folder: Path, tmp_path: Path) -> None:
    vectors = {"pooling": "cls", "normalize": True, "max_length": 9}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=vectors)
    note = "not carried over: how vectors are made; "
    for to in ("huggingface", "tensorflow"):
        done = convert(tmp_path / "st", tmp_path / to, to)  # type: ignore[arg-type]
        assert note + "--to sentence-transformers keeps it" in done.notes
    done = convert(tmp_path / "st", tmp_path / "again", "sentence-transformers")
    assert not [line for line in done.notes if "vectors" in line]
    assert embedding_of(tmp_path / "again") == EmbeddingDefaults("cls", True, 9)


def test_another_pooling_leaves_out_what_was_trained_on_the_first(
    folder: Path, tmp_path: Path
) -> None:
    told = {"prompts": {"query": "Q: "}, "dimensions": 9}
    convert(folder, tmp_path / "st", "sentence-transformers", vectors=told)
    known = EmbeddingDefaults(max_length=17, **told)  # type: ignore[arg-type]
    assert embedding_of(tmp_path / "st") == known
    to = "sentence-transformers"
    convert(tmp_path / "st", tmp_path / "max", to, vectors={"pooling": "max"})
    expected = replace(known, pooling="max", dimensions=None)
    assert embedding_of(tmp_path / "max") == expected


def test_defaults_beside_a_pickle(sentences: Path, tmp_path: Path) -> None:
    put(sentences / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    weights = sentences / "model.safetensors"
    torch.save(load_file(weights), sentences / "pytorch_model.bin")
    weights.unlink()
    convert(sentences, tmp_path / "out", "sentence-transformers")
    assert embedding_of(tmp_path / "out") == EmbeddingDefaults("cls", False, 17)


def test_prompts(sentences: Path) -> None:
    path = sentences / "config_sentence_transformers.json"
    put(path, {"prompts": {"query": "Q: ", "none": None}, "default_prompt_name": None})
    found = embedding_of(sentences)
    assert found is not None
    assert (found.prompts, found.default_prompt_name) == ({"query": "Q: ", "none": ""}, None)
    assert found.vectors().prompt == ""
    put(path, {"prompts": {"query": "Q: "}, "default_prompt_name": "query", "truncate_dim": 9})
    found = embedding_of(sentences)
    assert found is not None
    assert (found.vectors().prompt, found.vectors().dimensions) == ("Q: ", 9)
    put(path, {"truncate_dim": 24})  # all of them
    assert embedding_of(sentences) == EmbeddingDefaults(max_length=17)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"prompts": ["query"]}, "'prompts' in .* is \\['query'\\]; expected texts by name"),
        ({"prompts": {"query": 3}}, "the prompt 'query' in .* is 3; expected a text of up to"),
        ({"prompts": {"query": "x" * 9000}}, "expected a text of up to 8,192 characters"),
        ({"default_prompt_name": "query"}, "is 'query'; expected the name of a prompt there"),
        ({"prompts": {}, "default_prompt_name": 3}, "'default_prompt_name' in .* is 3"),
        ({"truncate_dim": 0}, "'truncate_dim' in .* is 0; expected a whole number of numbers from"),
        ({"truncate_dim": "64"}, "'truncate_dim' in .* is '64'"),
        ({"truncate_dim": True}, "'truncate_dim' in .* is True"),
    ],
)
def test_settings_that_are_none(sentences: Path, content: Any, message: str) -> None:
    put(sentences / "config_sentence_transformers.json", content)
    raises(DataError, message, embedding_of, sentences)


def test_a_scaling_of_something_else(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "st", "sentence-transformers", vectors={"normalize": True})
    path = tmp_path / "st" / "2_Normalize" / "config.json"
    put(path, {"module_input_name": "sentence_embedding", "module_output_name": None})
    assert embedding_of(tmp_path / "st") == EmbeddingDefaults(normalize=True, max_length=17)
    put(path, {"module_input_name": "token_embeddings"})
    with pytest.raises(DataError, match=r"'module_input_name' in .* is 'token_embeddings'"):
        embedding_of(tmp_path / "st")


def test_what_is_written(tmp_path: Path) -> None:
    write_defaults(tmp_path, EmbeddingDefaults("max", True, 64), 24)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [part["path"] for part in modules] == ["", "1_Pooling", "2_Normalize"]
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling["word_embedding_dimension"] == 24
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_max_tokens"]
    assert not (tmp_path / "config_sentence_transformers.json").exists()


@pytest.mark.parametrize("pooling", ["first-last", "none", "mean+mean-max+sum"])
def test_a_pooling_that_is_only_ours(tmp_path: Path, pooling: str) -> None:
    raises(ConfigError, "pooling", write_defaults, tmp_path, EmbeddingDefaults(pooling), 24)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [2, 18])
def test_a_length_that_the_model_has_not(folder: Path, tmp_path: Path, length: int) -> None:
    with pytest.raises(ConfigError, match=f"max_length is {length}; expected 3 to 17"):
        convert(folder, tmp_path / "x", "sentence-transformers", vectors={"max_length": length})
    assert not (tmp_path / "x").exists()
