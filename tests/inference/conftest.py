"""A small model of random weights in a folder, as `bertwright.inference.model.load` takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.config.vectors import VectorConfig
from bertwright.inference.model import Model, load
from bertwright.inference.vectors.embed import Embedder
from tests.small_bert import write_model


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
