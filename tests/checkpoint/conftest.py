"""A small learner, and a folder of it as Hugging Face writes one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.objectives.objective import Learner
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
