"""A small learner, and a folder of it as Hugging Face writes one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.bert import BertConfig
from bertwright.nn.init import initialize
from bertwright.objectives.objective import Learner
from bertwright.text.tokenizer import make_tokenizer

CONFIG = BertConfig(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=17,
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,!?"]


def new_learner(objectives: tuple[str, ...] = ("masked_lm", "next_sentence")) -> Learner:
    """Every number random, biases and norms too."""
    learner = make_learner(CONFIG, objectives)
    chance = torch.Generator().manual_seed(0)
    initialize(learner, 0.2, chance)
    for parameter in learner.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=chance) * 0.1)
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
