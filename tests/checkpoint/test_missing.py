"""Which paths are refused as models before torch is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.checkpoint.missing import refuse_missing_model
from bertwright.errors import DataError


def test_paths_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.` and `..`, from within the folder of a model."""
    (tmp_path / "model" / "inside").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path / "model")
    refuse_missing_model(".", "", "inside/..")
    monkeypatch.chdir("inside")
    refuse_missing_model("..")
    with pytest.raises(DataError, match=r"config\.json"):
        refuse_missing_model(".")


def test_the_name_of_a_tensorflow_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "bert.ckpt.index").touch()
    refuse_missing_model(tmp_path / "bert.ckpt", tmp_path / "bert.ckpt.index")
    with pytest.raises(DataError, match=r"other\.ckpt"):
        refuse_missing_model(tmp_path / "other.ckpt")
