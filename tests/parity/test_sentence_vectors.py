"""sentence-transformers and ours, of one folder: prompts, dense layers, poolings, dimensions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.config.task import HeadConfig
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.tasks.similarity.options import DenseConfig, SimilarityTask
from tests.checkpoint.conftest import embedding_of
from tests.checkpoint.sentence_transformers.sample import random_layer
from tests.small_bert import CONFIG as SMALL
from tests.small_bert import write_model

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *".,!?:", "##ing", "the"]
H = 24
CONFIG = replace(SMALL, num_hidden_layers=2, max_position_embeddings=16)
TEXTS = ["a b c.", "the", "", "c d e f g h i j k l m n o p q r", "fishing, the fishing!", "a b d."]
PROMPTS = {"query": "the q: ", "passage": "p: ", "joined": "fish", "empty": ""}
ACTIVATION = "torch.nn.modules.activation"


@cache
def library() -> Any:
    """sentence-transformers, which takes seconds to import: not where tests are only collected."""
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of random weights."""
    folder = tmp_path_factory.mktemp("bert") / "model"
    return write_model(folder, (), CONFIG, vocabulary=VOCABULARY, std=0.2, noise=0.1)


def both(bert: Path, out: Path, **defaults: Any) -> tuple[Any, Embedder]:
    """Their model and ours of a folder that we wrote."""
    convert(bert, out, "sentence-transformers", vectors=defaults)
    assert embedding_of(out) == EmbeddingDefaults(**{"max_length": 16, **defaults})
    return library().SentenceTransformer(str(out), device="cpu"), load(out, device="cpu").embedder()


def check(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


POOLINGS = ["mean-sqrt", "weighted", "last", "cls+max+mean", "mean+cls", "max+mean-sqrt+last"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "normalize", "length"),
    [
        *((pooling, True, 16) for pooling in POOLINGS),
        *((pooling, normalize, 9) for pooling in ("mean", "max", "cls") for normalize in (0, 1)),
    ],
)
def test_poolings(
    bert: Path, tmp_path: Path, pooling: str, normalize: bool, length: int, recwarn: Any
) -> None:
    if pooling == "mean+cls" and int(library().__version__.split(".")[0]) < 5:
        pytest.skip("this version of sentence-transformers has no order of poolings")
    told: dict[str, Any] = {"pooling": pooling, "normalize": bool(normalize), "max_length": length}
    theirs, ours = both(bert, tmp_path / "ours", **told)
    assert theirs.max_seq_length == length
    assert not [w for w in recwarn if "pooling" in str(w.message).lower()]
    check(ours.embed(TEXTS), theirs.encode(TEXTS))
    # and what it saves itself, in the form of its version, is read
    theirs.save(str(tmp_path / "theirs"))
    check(load(tmp_path / "theirs").embed(TEXTS), theirs.encode(TEXTS))
    found = embedding_of(tmp_path / "theirs")
    assert found is not None
    assert not any(found.prompts.values())  # their newest names two empty ones
    assert replace(found, prompts={}) == EmbeddingDefaults(**told)


@pytest.mark.parametrize("default", [None, "query"])
def test_prompts(bert: Path, tmp_path: Path, default: str | None) -> None:
    told = {"prompts": PROMPTS, "default_prompt_name": default}
    theirs, ours = both(bert, tmp_path / "ours", **told)
    check(ours.embed(TEXTS), theirs.encode(TEXTS))
    for name in PROMPTS:
        check(ours.embed(TEXTS, prompt_name=name), theirs.encode(TEXTS, prompt_name=name))
    for text in ("", "c d e f g h i j k l m n o p q r s t", "x, "):
        check(ours.embed(TEXTS, prompt=text), theirs.encode(TEXTS, prompt=text))
    theirs.save(str(tmp_path / "theirs"))
    again = embedding_of(tmp_path / "theirs")
    assert again is not None
    assert again.default_prompt_name == default
    assert {**again.prompts, **PROMPTS} == again.prompts
    check(load(tmp_path / "theirs").embed(TEXTS), theirs.encode(TEXTS))


@pytest.mark.parametrize(
    ("sizes", "bias", "activation"),
    [
        ([H], True, f"{ACTIVATION}.Tanh"),
        ([7], False, "torch.nn.modules.linear.Identity"),
        ([31, 5], True, f"{ACTIVATION}.GELU"),
        ([9], True, f"{ACTIVATION}.ReLU"),
        ([9], False, f"{ACTIVATION}.SiLU"),
        ([9], True, f"{ACTIVATION}.Sigmoid"),
    ],
)
def test_dense_layers(
    bert: Path, tmp_path: Path, sizes: list[int], bias: bool, activation: str
) -> None:
    given, layers = H, []
    for number, made in enumerate(sizes):
        layers.append(random_layer(tmp_path / f"layer-{number}", given, made, bias, activation))
        given = made
    told = {"pooling": "cls", "dense": tuple(layers), "normalize": True}
    theirs, ours = both(bert, tmp_path / "ours", **told)
    check(ours.embed(TEXTS), theirs.encode(TEXTS))
    assert ours.width == sizes[-1]
    theirs.save(str(tmp_path / "theirs"))
    check(load(tmp_path / "theirs").embed(TEXTS), theirs.encode(TEXTS))
    convert(tmp_path / "theirs", tmp_path / "again", "sentence-transformers")
    again = library().SentenceTransformer(str(tmp_path / "again"), device="cpu")
    check(again.encode(TEXTS), theirs.encode(TEXTS))


@pytest.mark.parametrize("normalize", [False, True])
def test_dimensions(bert: Path, tmp_path: Path, normalize: bool) -> None:
    told = {"dimensions": 5, "normalize": normalize}
    theirs, ours = both(bert, tmp_path / "ours", **told)
    theirs.truncate_dim = 5  # before version 5 the folder could not say it
    # theirs are cut behind the Normalize and not scaled again, unless it is asked for
    check(ours.embed(TEXTS), theirs.encode(TEXTS, normalize_embeddings=normalize))
    config = replace(ours.config, dimensions=3)
    theirs.truncate_dim = 3
    expected = theirs.encode(TEXTS, normalize_embeddings=normalize)
    check(ours.with_config(config).embed(TEXTS), expected)
    settings = tmp_path / "ours" / "config_sentence_transformers.json"
    (tmp_path / "ours" / "MANIFEST.json").unlink()
    settings.write_text(json.dumps({"truncate_dim": 999}))  # more than there are: all
    theirs.truncate_dim = None
    whole = load(tmp_path / "ours").embed(TEXTS)
    check(whole, theirs.encode(TEXTS))


def test_all_at_once(bert: Path, tmp_path: Path) -> None:
    """As many things as a folder may say, and what they say of it again."""
    told: dict[str, Any] = {
        "pooling": "cls+mean",
        "dense": (random_layer(tmp_path / "layer", 2 * H, 8, True, f"{ACTIVATION}.Tanh"),),
        "prompts": PROMPTS,
        "default_prompt_name": "passage",
        "max_length": 9,
    }
    if int(library().__version__.split(".")[0]) < 5:
        told["pooling"] = "max+mean"
    theirs, ours = both(bert, tmp_path / "ours", **told)
    assert theirs.max_seq_length == 9
    check(ours.embed(TEXTS), theirs.encode(TEXTS))
    check(ours.embed(TEXTS, prompt_name="query"), theirs.encode(TEXTS, prompt_name="query"))


def test_the_layers_of_tokens_are_theirs(bert: Path, tmp_path: Path) -> None:
    """With a prompt; of the prompt's own tokens there are none here."""
    told = {"prompts": PROMPTS, "default_prompt_name": "query"}
    theirs, ours = both(bert, tmp_path / "ours", **told)
    (found,) = ours.with_config(replace(ours.config, pooling="none")).embed_tokens(["a fishing"])
    assert (found.tokens[:2], found.tokens[-1]) == (["[CLS]", "a"], "[SEP]")
    assert found.offsets[1] == (0, 1)
    expected = theirs.encode(["a fishing"], output_value="token_embeddings")[0].numpy()
    skip = len(expected) - len(found.vectors)
    right = np.concatenate([expected[:1], expected[1 + skip :]])
    check(found.vectors, right)


@pytest.mark.slow
def test_a_fine_tuned_model_is_loaded_there(bert: Path, tmp_path: Path) -> None:
    task = SimilarityTask(
        max_length=12,
        stride=4,
        head=HeadConfig(pooling="cls+mean"),
        dense=(DenseConfig(7, "tanh"), DenseConfig(5, bias=False)),
        prompts=(("query", "the q: "), ("document", "p: ")),
    )
    generator = torch.Generator().manual_seed(1)
    loaded = checkpoint.load(bert, (), generator, tasks={"task": task})
    checkpoint.save(tmp_path, loaded.learner, bert, "a card", tasks={"task": task})
    theirs, ours = library().SentenceTransformer(str(tmp_path), device="cpu"), load(tmp_path)
    assert theirs.similarity_fn_name == "cosine"
    for name in ("query", "document"):
        expected = theirs.encode(TEXTS, prompt_name=name)
        check(ours.embed(TEXTS, prompt_name=name), expected)
    assert expected.shape == (len(TEXTS), 5)
