"""Data of a few thousand tokens; machines are not measured in these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.finetune import run as finetuning
from tests.recipes.sample import build_data, config_of, train
from tests.recipes.task_files import write_model


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the precision asked for, without timing products of matrices."""
    chosen = {"auto": "fp32", "fp32": "fp32", "bf16": "bf16"}
    for recipe in (pretraining, finetuning):
        monkeypatch.setattr(recipe, "choose_precision", lambda _, asked: (chosen[asked], 1e11))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT to fine-tune."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def whole_run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 steps that were never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining, "choose_precision", lambda *_: ("fp32", 1e11))
        train(config_of(data, out))
    return out
