"""Tensors that were saved from a model inside one of PyTorch's wrappers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.inspection import inspect
from bertwright.errors import IntegrityError
from tests.raising import raises
from tests.small_bert import write_model

HEADS = ("masked_lm", "next_sentence")
Rename = Callable[[str], str]
WAYS: dict[str, Rename] = {
    "DataParallel": lambda name: f"module.{name}",
    "compile": lambda name: f"_orig_mod.{name}",
    "both": lambda name: f"module._orig_mod.{name}",
    "layers compiled": lambda name: name.replace(".attention.", "._orig_mod.attention."),
}


def rename(folder: Path, out: Path, how: Rename, weights: str = "model.safetensors") -> Path:
    """A copy of a folder with other names of tensors."""
    out.mkdir()
    for path in folder.iterdir():
        if path.name != "model.safetensors" and path.name != "MANIFEST.json":
            (out / path.name).write_bytes(path.read_bytes())
    tensors = {how(name): x for name, x in load_file(folder / "model.safetensors").items()}
    if weights.endswith(".bin"):
        torch.save(tensors, out / weights)
    else:
        save_file(tensors, out / weights, {"format": "pt"})
    return out


@pytest.mark.parametrize("way", WAYS)
def test_the_names_of_wrappers_are_left_out(tmp_path: Path, way: str) -> None:
    folder = write_model(tmp_path / "model", HEADS)
    wrapped = rename(folder, tmp_path / "wrapped", WAYS[way])
    expected = checkpoint.load(folder).learner.state_dict()
    found = checkpoint.load(wrapped).learner.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert inspect(wrapped).loads
    pickled = rename(folder, tmp_path / "pickled", WAYS[way], "pytorch_model.bin")
    convert(pickled, tmp_path / "converted")
    again = checkpoint.load(tmp_path / "converted").learner.state_dict()
    assert all(torch.equal(again[name], expected[name]) for name in expected)
    assert not any(
        "_orig_mod" in name for name in load_file(tmp_path / "converted/model.safetensors")
    )


def test_two_names_that_are_one(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", HEADS)
    tensors = load_file(folder / "model.safetensors")
    first = next(iter(tensors))
    tensors[f"_orig_mod.{first}"] = tensors[first].clone()
    (folder / "MANIFEST.json").unlink(missing_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    raises(IntegrityError, "one tensor twice", checkpoint.load, folder)
