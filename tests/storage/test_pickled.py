"""Pickles of weights: their tensors are read, and nothing in them is ever run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertwright.errors import DataError
from bertwright.storage.pickled import is_pickle, unpickle
from tests.storage.hostile import Hostile


@pytest.mark.parametrize("archive", [True, False])
def test_tensors_of_all_kinds(tmp_path: Path, archive: bool) -> None:
    shared = torch.arange(6.0).view(2, 3)
    kinds = (torch.float16, torch.bfloat16, torch.float64, torch.int64)
    tensors = {str(kind): torch.ones(2, dtype=kind) for kind in kinds}
    x, y = tmp_path / "x.bin", tmp_path / "y.bin"
    first = {"a": shared, "b": shared.t(), **tensors}
    torch.save(first, x, _use_new_zipfile_serialization=archive)
    torch.save({"d": torch.nn.Parameter(torch.ones(1))}, y, _use_new_zipfile_serialization=archive)
    assert is_pickle(x)
    unpickle([x, y], tmp_path / "out")
    found = load_file(tmp_path / "out")
    assert torch.equal(found["b"], shared.t())
    assert set(found) == {"a", "b", "d", *tensors}
    assert all(torch.equal(found[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("archive", [True, False])
def test_nothing_is_run(tmp_path: Path, archive: bool) -> None:
    path = tmp_path / "x.bin"
    torch.save({"a": Hostile(tmp_path / "ran")}, path, _use_new_zipfile_serialization=archive)
    with pytest.raises(DataError, match=r"exec.*nothing of it was run"):
        unpickle([path], tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param([1], id="a list"),
        pytest.param({"a": 3}, id="a number"),
        pytest.param({3: torch.ones(1)}, id="a tensor without a name"),
        pytest.param({"a": torch.ones(1).expand(10**12)}, id="more memory than the file has"),
        pytest.param({"a": torch.ones(2, 2).to_sparse()}, id="a sparse tensor"),
        pytest.param({"a": torch.ones(2, device="meta")}, id="a tensor without memory"),
    ],
)
def test_what_is_no_weights(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "x.bin")
    with pytest.raises(DataError):
        unpickle([tmp_path / "x.bin"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "x.bin")
    with pytest.raises(DataError, match="'a' is in two shards"):
        unpickle([tmp_path / "x.bin"] * 2, tmp_path / "out")


@pytest.mark.parametrize("content", [b"\x80\x02", b"\x80\x02junk", b"\x80\x05\x95" + b"\xff" * 8])
def test_damaged_pickles(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(DataError, match="no pickle"):
        unpickle([tmp_path / "x.bin"], tmp_path / "out")


def packed(path: Path, change: str) -> None:
    """The archive anew: deflated, with a flag or a way of packing it never has, or much to do."""
    with zipfile.ZipFile(path) as archive:
        members = {each.filename: archive.read(each) for each in archive.infolist()}
    if change == "long":
        members = {n: b"]" * (2 << 20) if n.endswith(".pkl") else v for n, v in members.items()}
    kind = zipfile.ZIP_DEFLATED if change == "deflated" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    data = bytearray(path.read_bytes())
    for mark, flags, way in ((b"PK\3\4", 6, 8), (b"PK\1\2", 8, 10)):
        place = data.find(mark)
        while place >= 0:
            if change == "encrypted":
                data[place + flags] |= 1
            if change == "unknown":
                data[place + way] = 99
            place = data.find(mark, place + 1)
    path.write_bytes(data)


@pytest.mark.parametrize("change", ["deflated", "unknown", "encrypted", "long"])
def test_archives_that_pytorch_does_not_write(tmp_path: Path, change: str) -> None:
    path = tmp_path / "x.bin"
    torch.save({"a": torch.arange(9.0)}, path)
    packed(path, change)
    with pytest.raises(DataError, match=r"compressed or encrypted|pickle instructions"):
        unpickle([path], tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["x.bin"]
