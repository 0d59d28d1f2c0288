"""A small model of random weights in a folder, as `bertwright.inference.model.load` takes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.config.vectors import VectorConfig
from bertwright.inference.model import Model, load
from bertwright.inference.vectors.embed import Embedder
from bertwright.models.nnlm.config import NnlmConfig
from tests.small_bert import write_model
from tests.small_runs import SPECIAL, WORDS, make_tokenizer


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("both") / "model", ("masked_lm", "next_sentence"))


@pytest.fixture(scope="session")
def bare_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("bare") / "model", ())


@pytest.fixture(scope="session")
def embedder(model_folder: Path) -> Embedder:
    """Of means of the last layer."""
    return load(model_folder, device="cpu").embedder(VectorConfig((-1,)))


@pytest.fixture
def model(model_folder: Path) -> Model:
    return load(model_folder, device="cpu")


TEXT = " ".join(WORDS[n % 40] for n in range(70))


def language_model(folder: Path, seed: int = 1, words: Sequence[str] = WORDS) -> Model:
    folder.mkdir()
    tokenizer = folder / "tokenizer"
    make_tokenizer([*SPECIAL, *words, "."]).save(tokenizer)
    config = NnlmConfig(len(SPECIAL) + len(words) + 1, 6, 3)
    learner = checkpoint.make_learner(config, ["next_token"])
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    checkpoint.save(folder, learner, tokenizer, "a card")
    return load(folder, device="cpu")
