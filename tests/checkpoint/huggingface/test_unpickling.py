"""The process that opens pickles, its work done here; its limits and its answers, in one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertwright.checkpoint.huggingface import pickled
from bertwright.checkpoint.huggingface.unpickling import unpickle
from bertwright.errors import DataError


def test_tensors_of_all_kinds(tmp_path: Path) -> None:
    shared = torch.arange(6.0).view(2, 3)
    torch.save({"a": shared, "b": shared.t(), "c": torch.ones(2).half()}, tmp_path / "x.bin")
    torch.save({"d": torch.nn.Parameter(torch.ones(1))}, tmp_path / "y.bin")
    unpickle([str(tmp_path / "x.bin"), str(tmp_path / "y.bin")], str(tmp_path / "out"))
    found = load_file(tmp_path / "out")
    assert torch.equal(found["b"], shared.t())
    assert found["c"].dtype == torch.float16
    assert set(found) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "it holds list"),
        ({"a": 3}, "'a' in it is int"),
        ({3: torch.ones(1)}, "'3' in it is Tensor"),
    ],
)
def test_what_is_no_weights(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "x.bin")
    with pytest.raises(DataError, match=message):
        unpickle([str(tmp_path / "x.bin")], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "x.bin")
    with pytest.raises(DataError, match="'a' is in two of its shards"):
        unpickle([str(tmp_path / "x.bin")] * 2, str(tmp_path / "out"))


def test_weights_pass_the_screen(tmp_path: Path) -> None:
    kinds = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64)
    tensors = {str(kind): torch.ones(2, dtype=kind) for kind in kinds}
    torch.save({**tensors, "p": torch.nn.Parameter(torch.ones(1))}, tmp_path / "x.bin")
    pickled.screen(tmp_path / "x.bin")
    assert pickled.is_pickle(tmp_path / "x.bin")
    torch.save(tensors, tmp_path / "x.bin", _use_new_zipfile_serialization=False)
    assert pickled.is_pickle(tmp_path / "x.bin")


@pytest.mark.slow  # processes that import torch
def test_more_memory_than_weights_need(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1).expand(10**12)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"was given up .*allocate"):
        pickled.unpickle([tmp_path / "pytorch_model.bin"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_old_pickles_are_judged_by_torch(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> object:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Hostile()}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match=r"was given up .*[Uu]nsupported"):
        pickled.unpickle([path], tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    monkeypatch.setattr(pickled, "_SECONDS", 0)
    with pytest.raises(DataError, match="took more than 0 s to open; it was given up"):
        pickled.unpickle([tmp_path / "pytorch_model.bin"], tmp_path / "out")
