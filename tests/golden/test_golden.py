"""Equal to yesterday: batches bit for bit, losses to the rounding of another processor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.make_golden import FOLDER, batches, losses


def test_batches(tmp_path: Path) -> None:
    assert batches(tmp_path) == json.loads((FOLDER / "batches.json").read_text("utf-8"))


def test_losses(tmp_path: Path) -> None:
    expected = json.loads((FOLDER / "losses.json").read_text("utf-8"))
    found = losses(tmp_path)
    assert len(found) == len(expected) == 20
    for ours, golden in zip(found, expected, strict=True):
        assert ours == pytest.approx(golden, rel=1e-4)
