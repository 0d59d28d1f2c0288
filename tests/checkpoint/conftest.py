"""A small learner, and a folder of it as Hugging Face writes one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.opened import open_model
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.errors import BertwrightError
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_bert import CONFIG as SMALL
from tests.small_bert import scatter

CONFIG = replace(SMALL, vocab_size=37, max_position_embeddings=17)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,!?"]


def new_learner(objectives: tuple[str, ...] = ("masked_lm", "next_sentence")) -> Learner:
    """Every number random, biases and norms too."""
    learner = make_learner(CONFIG, objectives)
    scatter(learner, 0.2, 0.1)
    return learner.eval()


def change(path: Path, **values: Any) -> None:
    """Change keys of a JSON file, or write one."""
    old = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**old, **values}))


def rewrite(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Other weights in a folder."""
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")


def assert_same(found: nn.Module, expected: nn.Module) -> None:
    """The same parameters and buffers, bit for bit, in the same order."""
    ours, theirs = found.state_dict(), expected.state_dict()
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype
        assert torch.equal(ours[name], value), name


def refused(folder: Path, error: type[BertwrightError], message: str) -> None:
    """The folder is not loaded, and this is said of it."""
    with pytest.raises(error, match=message):
        load(folder)


@pytest.fixture
def learner() -> Learner:
    return new_learner()


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    make_tokenizer(VOCABULARY).save(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path, learner: Learner, tokenizer_folder: Path) -> Path:
    """A saved learner with both heads."""
    path = tmp_path / "model"
    path.mkdir()
    save(path, learner, tokenizer_folder, "# A card\n")
    return path


def embedding_of(folder: Path) -> EmbeddingDefaults | None:
    """Return how the vectors of a folder are computed."""
    return open_model(folder).embedding
