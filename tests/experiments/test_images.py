"""The experiment with images: a CNN is frozen and trained as language encoders are."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from bertwright.nn.sequences import Inputs, Sequences
from tests.house.source import ROOT

WAYS = {
    "frozen": {"objectives"},
    "last layer": {"layers.1", "objectives"},
    "fine-tuned": {"layers.0", "layers.1", "objectives"},
}


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("images", ROOT / "experiments/images/run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "EXAMPLES", (5, 10))
    monkeypatch.setattr(module, "PRETRAINING_STEPS", 2)
    return module


@pytest.mark.parametrize("way", WAYS)
def test_what_is_trained(images: ModuleType, way: str) -> None:
    encoder = images.Cnn()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    pixels = torch.randint(17, (10, 64))
    assert encoder(Inputs(pixels, Sequences([1] * 10))).last.shape == (10, encoder.spec.width)
    learner = images.train(encoder, way, pixels, torch.arange(10) % 5, 3, 1)
    changed = {
        name[:8] for name, value in encoder.state_dict().items() if (value != before[name]).any()
    }
    assert changed | {"objectives"} == WAYS[way]
    trained = {name for name, value in learner.named_parameters() if value.requires_grad}
    assert {name.removeprefix("encoder.")[:8] for name in trained} == {
        each[:8] for each in WAYS[way]
    }


@pytest.mark.slow
def test_the_experiment_runs(
    images: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results.jsonl"
    monkeypatch.setattr(
        sys, "argv", ["images.py", "--seeds", "2", "--steps", "2", "--out", str(out)]
    )
    threads = torch.get_num_threads()
    images.main()
    torch.set_num_threads(threads)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["examples"] for row in rows} == {5, 10}
    assert all(0 < row["mean"] < 1 for row in rows)
    assert [row["gain"] for row in rows if row["way"] == "from scratch"] == [0, 0]
