"""Data of a few thousand tokens, a tiny model, and a whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_runs import build_data, config_of, train
from tests.task_files import write_model


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT to fine-tune."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def whole_run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 steps that were never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(config_of(data, out))
    return out
