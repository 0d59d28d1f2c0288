"""Folders made to break a reader: refused with a reason, nothing taken, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.convert import convert
from bertwright.errors import BertwrightError, DataError, IntegrityError
from tests.checkpoint.conftest import refused


def header(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_raw(path: Path, content: dict[str, Any], data: bytes) -> None:
    text = json.dumps(content).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("size", [1 << 40, (1 << 63) + 1, 2**64 - 1])
def test_a_header_of_a_terabyte(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", size) + path.read_bytes()[8:])
    refused(folder, IntegrityError, "is truncated or damaged")


@pytest.mark.parametrize(
    "change",
    [
        *({"data_offsets": [start, end]} for start, end in ((0, 96), (96, 192), (-96, 0), (96, 0))),
        {"data_offsets": [10**15, 10**15 + 96]},
        {"data_offsets": [0, 2**64]},
        {"shape": [2**40]},
        None,  # a hole
    ],
)
def test_tensors_that_overlap_or_lie_outside(folder: Path, change: Any) -> None:
    path = folder / "model.safetensors"
    content, data = header(path)
    bias = content.pop("bert.pooler.dense.bias")
    if change is not None:
        assert bias["data_offsets"] != change.get("data_offsets")
        content["bert.pooler.dense.bias"] = {**bias, **change}
    write_raw(path, content, data)
    refused(folder, IntegrityError, "is truncated or damaged")


def test_bytes_after_the_end(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"more")
    refused(folder, IntegrityError, "is truncated or damaged")


EMBEDDINGS = "bert.embeddings.word_embeddings.weight"
DECODER = "cls.predictions.decoder.weight"


def test_tied_weights(folder: Path) -> None:
    """Once is enough, under either name; twice they must be equal; without both there is none."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    table = tensors[EMBEDDINGS]
    save_file({**tensors, DECODER: table.clone()}, path)
    load(folder)
    save_file({**tensors, DECODER: table + 1}, path)
    refused(folder, DataError, f"'{DECODER}' differs from '{EMBEDDINGS}'")
    save_file({**tensors, DECODER: table[:5].clone()}, path)
    with pytest.raises(BertwrightError):
        load(folder)
    del tensors[EMBEDDINGS]
    save_file({**tensors, DECODER: table.clone()}, path)
    assert torch.equal(load(folder).learner.encoder.embeddings.token.weight, table)
    save_file(tensors, path)
    refused(folder, IntegrityError, f"lacks '{EMBEDDINGS}'")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt", "other"])
def test_links_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    refused(folder, IntegrityError, rf"{name} is a link .*{outside}")
    with pytest.raises(IntegrityError, match="is a link out of its folder"):
        convert(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def assert_same_weights(one: Path, other: Path) -> None:
    """Both load, and their encoders are the same."""
    ours, theirs = (load(folder).learner.encoder.state_dict() for folder in (one, other))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_links_within_the_folder_and_to_it(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "plain")
    (folder / "model.safetensors").rename(folder / "weights")
    (folder / "model.safetensors").symlink_to("weights")
    (tmp_path / "link").symlink_to(folder)
    assert_same_weights(tmp_path / "link", tmp_path / "plain")


def test_links_that_lead_nowhere(folder: Path) -> None:
    (folder / "a").symlink_to("a")
    refused(folder, IntegrityError, "link to itself")
    (folder / "a").unlink()
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    refused(folder, IntegrityError, "is a link to itself")


@pytest.mark.parametrize("name", ["1_Pooling", "1_Pooling/config.json"])
def test_links_out_of_the_folder_of_parts(folder: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "st"
    convert(folder, root, "sentence-transformers")
    (root / "MANIFEST.json").unlink()
    load(root)
    (root / name).rename(tmp_path / "outside")
    (root / name).symlink_to(tmp_path / "outside")
    refused(root, IntegrityError, f"{name} is a link")


@pytest.mark.parametrize("parts", [False, True])
def test_the_cache_of_the_hub(folder: Path, tmp_path: Path, parts: bool) -> None:
    """Its snapshots are links to blobs beside them."""
    blobs = tmp_path / "models--a--b" / "blobs"
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    convert(folder, snapshot, "sentence-transformers" if parts else "huggingface")
    (snapshot / "MANIFEST.json").unlink()
    for number, path in enumerate([p for p in snapshot.rglob("*") if p.is_file()]):
        path.rename(blobs / str(number))
        path.symlink_to(os.path.relpath(blobs / str(number), path.parent))
    assert_same_weights(snapshot, folder)


def test_no_file_but_a_pipe(folder: Path) -> None:
    """Reading it would wait for ever."""
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    refused(folder, DataError, r"holds neither config.json")


def test_numbers_that_float32_does_not_hold(folder: Path) -> None:
    """Finite in the file, infinite once read."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["bert.pooler.dense.bias"] = tensors["bert.pooler.dense.bias"].double() + 1e300
    save_file(tensors, path, metadata={"format": "pt"})
    refused(folder, DataError, "not finite in float32")
