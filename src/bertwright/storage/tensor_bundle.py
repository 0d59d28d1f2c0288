"""Read and write TensorFlow's checkpoint files ("tensor bundles") without TensorFlow.

```
PREFIX.index                  a table (sstable.py): "" -> header, each variable's name -> its entry
PREFIX.data-00000-of-00001    the variables' bytes, end to end, little-endian
```

Header and entries are protocol buffers (tensorflow/core/protobuf/tensor_bundle.proto), whose few
fields are read here by number. The files are not trusted: type, shape, position and size of every
variable must agree with each other and with the files before any variable is read, and the bytes of
a variable must match its CRC.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertwright.errors import DataError, IntegrityError
from bertwright.storage.crc32c import masked
from bertwright.storage.sstable import make_table, read_table, read_varint, varint

_LARGEST_INDEX = 64 << 20
_MOST_SHARDS = 1_000
_FLOAT = 1
_DTYPES = {_FLOAT: "F32", 2: "F64", 3: "I32", 9: "I64", 14: "BF16", 19: "F16"}
_TORCH = {
    "F32": torch.float32,
    "F64": torch.float64,
    "I32": torch.int32,
    "I64": torch.int64,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
}
_LITTLE_ENDIAN = 0
_SLICE = b"\0"

Field = int | bytes


class BundleEntry(NamedTuple):
    """The type, shape and position of a variable."""

    file: Path
    dtype: str
    """Its type by the name in safetensors, or TensorFlow's number of a type that is not read."""
    shape: tuple[int, ...]
    offset: int
    size: int
    """The number of its bytes."""
    crc: int
    """The masked CRC-32C of its bytes."""


def find_prefix(path: Path) -> Path | None:
    """Return the name of the checkpoint at a path, without `.index`; None if there is none.

    The path is a folder, or a checkpoint's name with or without `.index`.
    """
    if not path.is_dir():
        prefix = path.with_name(path.name.removesuffix(".index"))
        return prefix if prefix.with_name(f"{prefix.name}.index").is_file() else None
    names = sorted(file.name.removesuffix(".index") for file in path.glob("*.index"))
    if len(names) > 1:
        raise DataError(
            f"{path} has the checkpoints {', '.join(names[:8])}; name one: {path / names[0]}"
        )
    return path / names[0] if names else None


def read_entries(prefix: Path) -> dict[str, BundleEntry]:
    """Return the entries of all variables of a checkpoint by name, checked against its files.

    Args:
        prefix: the checkpoint's name without `.index`.
    """
    index = prefix.with_name(f"{prefix.name}.index")
    if not index.is_file():
        raise DataError(f"no file {index}; expected the index of a TensorFlow checkpoint")
    if index.stat().st_size > _LARGEST_INDEX:
        raise IntegrityError(
            f"{index} has {index.stat().st_size} bytes; expected at most {_LARGEST_INDEX}"
        )
    table = read_table(index.read_bytes(), str(index))
    if b"" not in table:
        raise IntegrityError(f"{index} has no header: it is not an index of TensorFlow")
    files = _data_files(prefix, _fields(table.pop(b""), str(index)))
    entries: dict[str, BundleEntry] = {}
    for key, value in table.items():
        if key.startswith(_SLICE):  # a slice; the entry of its variable lists it
            continue
        try:
            name = key.decode()
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{index} is damaged: a name is not UTF-8") from error
        entries[name] = _entry(name, value, files, str(index))
    _check_positions(entries)
    return entries


def read_tensor(name: str, entry: BundleEntry) -> Tensor:
    """Return a variable after verifying its bytes."""
    if entry.dtype not in _TORCH:
        raise DataError(f"'{name}' in {entry.file} has type {entry.dtype}; expected numbers")
    data = np.empty(entry.size, np.uint8)
    with entry.file.open("rb") as file:
        file.seek(entry.offset)
        count = file.readinto(data.data)
    if count != entry.size or masked(data) != entry.crc:
        raise IntegrityError(
            f"'{name}' in {entry.file} was truncated or changed later (its CRC differs)"
        )
    if not entry.size:
        return torch.empty(entry.shape, dtype=_TORCH[entry.dtype])
    return torch.from_numpy(data).view(_TORCH[entry.dtype]).view(entry.shape)


def write_bundle(prefix: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write variables in float32 under their names, in the format of TensorFlow 1."""
    table = {b"": _int(1, 1) + _bytes(3, _int(1, 1))}  # one shard; little-endian; producer 1
    offset = 0
    with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as file:
        for name in sorted(tensors, key=str.encode):
            tensor = tensors[name].detach().cpu().to(torch.float32).contiguous()
            data = tensor.view(-1).numpy().view(np.uint8)
            shape = b"".join(_bytes(2, _int(1, size)) for size in tensor.shape)
            value = _int(1, _FLOAT) + _bytes(2, shape)
            value += (_int(4, offset) if offset else b"") + _int(5, len(data))
            table[name.encode()] = value + varint(6 << 3 | 5) + struct.pack("<I", masked(data))
            file.write(data.data)
            offset += len(data)
    prefix.with_name(f"{prefix.name}.index").write_bytes(make_table(table))


def _data_files(prefix: Path, header: dict[int, list[Field]]) -> list[Path]:
    """Return the data files in the order of their shards."""
    count = _number(header, 1, f"{prefix}.index")
    if not 0 < count <= _MOST_SHARDS:
        raise IntegrityError(
            f"{prefix}.index lists {count} data files; expected 1 to {_MOST_SHARDS}"
        )
    if _number(header, 2, f"{prefix}.index") != _LITTLE_ENDIAN:
        raise DataError(f"{prefix}.index was written big-endian, which is not supported")
    names = [f"{prefix.name}.data-{n:05d}-of-{count:05d}" for n in range(count)]
    for name in names:
        if not prefix.with_name(name).is_file():
            raise IntegrityError(f"{prefix.with_name(name)} is missing; the index lists it")
    return [prefix.with_name(name) for name in names]


def _entry(name: str, value: bytes, files: list[Path], where: str) -> BundleEntry:
    fields = _fields(value, where)
    kind = _number(fields, 1, where)
    shape = _shape(fields, where)
    shard, offset, size = (_number(fields, number, where) for number in (3, 4, 5))
    crc = _number(fields, 6, where)
    if 7 in fields:
        raise DataError(
            f"'{name}' in {where} is a partitioned variable, which is not supported: restore the "
            "checkpoint in TensorFlow without a partitioner and save it again"
        )
    if shard >= len(files):
        raise IntegrityError(f"'{name}' in {where} is in data file {shard} of {len(files)}")
    dtype = _DTYPES.get(kind, f"{kind}")
    needed = math.prod(shape) * _TORCH[dtype].itemsize if dtype in _TORCH else size
    if needed != size:
        raise IntegrityError(
            f"'{name}' in {where} has {size} bytes; {list(shape)} of {dtype} needs {needed}"
        )
    return BundleEntry(files[shard], dtype, shape, offset, size, crc)


def _shape(fields: dict[int, list[Field]], where: str) -> tuple[int, ...]:
    shape = []
    for part in fields.get(2, []):
        for dimension in _fields(part, where).get(2, []):
            size = _number(_fields(dimension, where), 1, where)
            shape.append(size)
    if any(size >= 1 << 40 for size in shape) or len(shape) > 8:
        raise IntegrityError(f"{where} is damaged: a variable has the shape {shape[:8]}")
    return tuple(shape)


def _check_positions(entries: Mapping[str, BundleEntry]) -> None:
    """Check that every variable is inside its file and that none overlap."""
    sizes = {entry.file: entry.file.stat().st_size for entry in entries.values()}
    for name, entry in entries.items():
        if entry.offset + entry.size > sizes[entry.file]:
            raise IntegrityError(
                f"{entry.file} has {sizes[entry.file]} bytes; '{name}' ends at byte "
                f"{entry.offset + entry.size}: the file was truncated"
            )
    placed = sorted((e.file, e.offset, e.size, name) for name, e in entries.items() if e.size)
    for (file, offset, size, name), (later, start, _, other) in pairwise(placed):
        if file == later and start < offset + size:
            raise IntegrityError(f"'{name}' and '{other}' overlap in {file}")


def _fields(data: Field, where: str) -> dict[int, list[Field]]:
    """Return the fields of a protocol buffer by number."""
    if isinstance(data, int):
        raise IntegrityError(f"{where} is damaged: it has a number in place of a message")
    fields: dict[int, list[Field]] = {}
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position, where)
        kind = tag & 7
        value: Field
        if kind == 0:
            value, position = read_varint(data, position, where)
        else:
            if kind == 2:
                size, position = read_varint(data, position, where)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise IntegrityError(f"{where} is damaged: it has a field of type {kind}")
            if position + size > len(data):
                raise IntegrityError(f"{where} is damaged: a field ends after its message")
            value = data[position : position + size]
            if kind != 2:
                value = int.from_bytes(value, "little")
            position += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _number(fields: dict[int, list[Field]], number: int, where: str) -> int:
    """Return a numeric field; 0 if it is absent."""
    value = fields.get(number, [0])[-1]
    if not isinstance(value, int) or value >= 1 << 62:
        raise IntegrityError(f"{where} is damaged: field {number} is not a number of 0 or more")
    return value


def _int(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value
