"""TensorFlow checkpoints on disk: bytes made by hand, every kind of damage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.errors import DataError, IntegrityError
from bertwright.storage.crc32c import masked
from bertwright.storage.sstable import make_table, varint
from bertwright.storage.tensor_bundle import read_entries, read_tensor, write_bundle
from tests.raising import raises

HEADER = bytes.fromhex("0801 1a020801")  # one shard; version { producer: 1 }


def entry(
    data: bytes,
    dtype: int = 1,
    shape: tuple[int, ...] = (),
    offset: int = 0,
    more: bytes = b"",
    size: int | None = None,
    shard: int = 0,
) -> bytes:
    """A BundleEntryProto, written out."""
    dims = b"".join(
        b"\x12" + varint(len(d)) + d for d in (b"\x08" + varint(size) for size in shape)
    )
    message = b"\x08" + varint(dtype) + b"\x12" + varint(len(dims)) + dims
    message += b"\x18" + varint(shard) + b"\x20" + varint(offset)
    message += b"\x28" + varint(len(data) if size is None else size)
    return message + b"\x35" + struct.pack("<I", masked(data)) + more


def write(folder: Path, entries: dict[bytes, bytes], data: bytes, header: bytes = HEADER) -> Path:
    (folder / "m.ckpt.index").write_bytes(make_table({b"": header, **entries}))
    (folder / "m.ckpt.data-00000-of-00001").write_bytes(data)
    return folder / "m.ckpt"


def test_bytes_made_by_hand(tmp_path: Path) -> None:
    weights = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    step = struct.pack("<q", 12345)
    halves = struct.pack("<2e", 0.5, -2)
    entries = {
        b"a/kernel": entry(weights, shape=(2, 3)),
        b"global_step": entry(step, dtype=9, offset=24),
        b"h": entry(halves, dtype=19, shape=(2,), offset=32),
        b"names": entry(b"\x03abc", dtype=7, offset=36),
    }
    prefix = write(tmp_path, entries, weights + step + halves + b"\x03abc")
    found = read_entries(prefix)
    assert list(found) == ["a/kernel", "global_step", "h", "names"]
    assert found["a/kernel"].shape == (2, 3)
    read = read_tensor("a/kernel", found["a/kernel"])
    assert torch.equal(read, torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
    assert read_tensor("global_step", found["global_step"]).item() == 12345
    assert read_tensor("h", found["h"]).tolist() == [0.5, -2]
    raises(
        DataError,
        r"'names'.* type .*numbers",
        read_tensor,
        "names",
        found["names"],
    )


def test_what_is_written_stays_the_same(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m.ckpt", {"b": torch.ones(2, 1), "a": torch.tensor([0.5])})
    data = struct.pack("<3f", 0.5, 1, 1)
    assert (tmp_path / "m.ckpt.data-00000-of-00001").read_bytes() == data
    first = bytes.fromhex("0801 1204 1202 0801 2804 35") + struct.pack("<I", masked(data[:4]))
    second = bytes.fromhex("0801 1208 1202 0802 1202 0801 2004 2808 35")
    second += struct.pack("<I", masked(data[4:]))
    table = make_table({b"": HEADER, b"a": first, b"b": second})
    assert (tmp_path / "m.ckpt.index").read_bytes() == table


def test_both_ways(tmp_path: Path) -> None:
    chance = torch.Generator().manual_seed(0)
    shapes = {"scalar": (), "empty": (0, 3), "wide": (3, 7001), "deep/name": (2, 1, 5)}
    tensors = {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    write_bundle(tmp_path / "x", tensors)
    found = read_entries(tmp_path / "x")
    for name, tensor in tensors.items():
        assert torch.equal(read_tensor(name, found[name]), tensor)


DATA = struct.pack("<4f", 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({b"a": entry(DATA, shape=(5,))}, r"16 bytes.*\[5\].*20"),
        ({b"a": entry(DATA, shape=(3,))}, r"16 bytes.*\[3\].*12"),
        ({b"a": entry(DATA, shape=(4,), offset=4)}, "byte 20"),
        ({b"a": entry(DATA, shape=(4,), shard=1)}, "data file 1"),
        (
            {b"a": entry(DATA[:8], shape=(2,)), b"b": entry(DATA[4:12], shape=(2,), offset=4)},
            "'a'.*'b'.*overlap",
        ),
        ({b"a": entry(DATA, shape=(1 << 41,))}, "shape"),
        ({b"a": entry(DATA, shape=(1 << 39, 1 << 39), size=16)}, "has 16 bytes"),
        ({b"a": entry(DATA, shape=(4,))[:-2]}, "after its message"),
        ({b"a": b"\x0f"}, "type 7"),
        ({b"a": b"\x12\x02\x10\x01"}, "message"),
        ({b"a": b"\x0a\x00"}, "field 1"),
        ({b"\xff": entry(DATA, shape=(4,))}, "UTF-8"),
    ],
)
def test_entries_that_cannot_be(tmp_path: Path, entries: dict[bytes, bytes], message: str) -> None:
    raises(IntegrityError, message, read_entries, write(tmp_path, entries, DATA))


def test_slices_and_big_endian_processors(tmp_path: Path) -> None:
    first = b"\0a\0\1\1\2\x80\xe0'\xbe\x80\xc1\x80"  # no text, and before the whole
    cut = {first: entry(DATA, shape=(4,)), b"a": entry(DATA, shape=(4,), more=b"\x3a\x00")}
    raises(DataError, r"'a'.*partitioned variable", read_entries, write(tmp_path, cut, DATA))
    raises(DataError, "big-endian", read_entries, write(tmp_path, {}, DATA, b"\x08\x01\x10\x01"))


@pytest.mark.parametrize("header", [b"", b"\x08\x00", b"\x08\xff\xff\xff\x7f"])
def test_numbers_of_data_files(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"lists .* data files"):
        read_entries(write(tmp_path, {}, b"", header))


def test_missing_files(tmp_path: Path) -> None:
    raises(DataError, r"no file .*m.ckpt.index", read_entries, tmp_path / "m.ckpt")
    prefix = write(tmp_path, {}, DATA)
    (tmp_path / "m.ckpt.data-00000-of-00001").unlink()
    raises(IntegrityError, "data-00000-of-00001", read_entries, prefix)


def test_no_header(tmp_path: Path) -> None:
    (tmp_path / "m.index").write_bytes(make_table({b"a": b"b"}))
    raises(IntegrityError, "has no header", read_entries, tmp_path / "m")


def test_an_index_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "m.index").open("wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    raises(IntegrityError, "expected at most", read_entries, tmp_path / "m")


def test_a_changed_byte_and_a_file_truncated_after_its_index_was_read(tmp_path: Path) -> None:
    prefix = write(tmp_path, {b"a": entry(DATA, shape=(4,))}, DATA)
    found = read_entries(prefix)["a"]
    for changed in (b"\1" + DATA[1:], DATA[:-1]):
        found.file.write_bytes(changed)
        with pytest.raises(IntegrityError, match=r"'a'.*CRC"):
            read_tensor("a", found)


@pytest.mark.parametrize("shards", [1, 2])
def test_what_tensorflow_itself_wrote(tmp_path: Path, shards: int) -> None:
    """And that it reads ours; needs `pip install tensorflow-cpu`."""
    tensorflow = pytest.importorskip("tensorflow")
    one = tensorflow.compat.v1
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        f"bert/layer_{n}/kernel": chance.normal(size=(n + 1, 300)).astype(np.float32)
        for n in range(40)
    }
    arrays |= {"step": np.int64(-(1 << 40)), "half": np.ones((2, 3), np.float16)}
    arrays |= {"none": np.zeros((0, 4), np.float32)}
    with tensorflow.Graph().as_default():
        for number, (name, array) in enumerate(arrays.items()):
            with tensorflow.device(f"/cpu:{number % shards}"):
                one.get_variable(name, initializer=array, use_resource=False)
        settings = one.ConfigProto(device_count={"CPU": shards})
        with one.Session(config=settings) as session:
            session.run(one.global_variables_initializer())
            one.train.Saver(sharded=True).save(session, str(tmp_path / "m.ckpt"))
    entries = read_entries(tmp_path / "m.ckpt")
    assert len({entry.file for entry in entries.values()}) == shards
    assert entries.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(read_tensor(name, entries[name]).numpy(), array)
    floats = {n: torch.from_numpy(a) for n, a in arrays.items() if n.startswith("bert")}
    write_bundle(tmp_path / "ours.ckpt", floats)
    reader = tensorflow.train.load_checkpoint(str(tmp_path / "ours.ckpt"))
    assert reader.get_variable_to_shape_map().keys() == floats.keys()
    assert all(np.array_equal(reader.get_tensor(n), a.numpy()) for n, a in floats.items())
