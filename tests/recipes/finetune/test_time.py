"""Fine-tuning in a limited time, as a comparison does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig
from bertwright.progress import silent
from bertwright.recipes.finetune import frozen
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.catalogue import files_and_options
from tests.task_files import write_files

AMPLE, NO_TIME = 600.0, 1e-6


def fit(model: Path, folder: Path, kind: str, seconds: float, **keys: Any) -> dict[str, Any]:
    train, dev = write_files(folder, kind)
    usual = {"epochs": 2.0, "learning_rate": 3e-3, "batch_size": 16, "baselines": False}
    config = FinetuneConfig(str(model), str(folder / "run"), device="cpu", **{**usual, **keys})
    task = TaskSpec("task", kind, *files_and_options(kind, {"train": str(train), "dev": str(dev)}))
    return finetune([task], config, silent, seconds=seconds)


def test_with_time_all_epochs_are_trained(model: Path, tmp_path: Path) -> None:
    results = fit(model, tmp_path, "classification", AMPLE)
    assert results["seeds"][0]["epochs"] == 2


def test_without_time_there_is_one_step(model: Path, tmp_path: Path) -> None:
    results = fit(model, tmp_path, "classification", NO_TIME)
    (seed,) = results["seeds"]
    step = 16 / results["data"]["train"]["examples"]
    assert seed["epochs"] == pytest.approx(step, rel=0.2)


@pytest.mark.parametrize("network", ["linear", "taglm"])
def test_features_are_of_as_many_examples_as_there_is_time_for(
    network: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "AT_ONCE", 8)
    keys: dict[str, Any] = {"transfer": "features", "network": network, "layers": "last"}
    keys |= {"learning_rate": "auto"} | ({"epochs": None} if network == "linear" else {})
    examples = []
    for number, seconds in enumerate((NO_TIME, AMPLE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        results = fit(model, folder, "tagging", seconds, **keys)
        examples.append(results["data"]["train"]["examples"])
    assert examples[0] <= 8 < examples[1]
