"""A small model of random weights in a folder, as `bertwright.inference.model.load` takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.bert import BertConfig
from bertwright.inference.model import Model, load
from bertwright.nn.init import initialize
from bertwright.text.tokenizer import make_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *".,!?", "##ing", "the"]
CONFIG = BertConfig(
    vocab_size=41,  # more than the tokenizer has, as published models round up
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=12,
)


def write_model(folder: Path, objectives: tuple[str, ...], config: BertConfig = CONFIG) -> Path:
    """A folder of random weights."""
    folder.mkdir(parents=True)
    learner = make_learner(config, objectives)
    chance = torch.Generator().manual_seed(0)
    initialize(learner, 0.1, chance)
    for parameter in learner.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=chance) * 0.05)
    tokenizer = folder.parent / f"{folder.name}-tokenizer"
    tokenizer.mkdir()
    make_tokenizer(VOCABULARY).save(tokenizer)
    save(folder, learner, tokenizer, "")
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("both") / "model", ("masked_lm", "next_sentence"))


@pytest.fixture(scope="session")
def bare_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("bare") / "model", ())


@pytest.fixture
def model(model_folder: Path) -> Model:
    return load(model_folder, device="cpu")
