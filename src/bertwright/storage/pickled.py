"""`pytorch_model.bin`, a pickle: opened by `bertwright convert` alone, and only for its tensors.

Opening a pickle with Python's `pickle` runs what is in it. PyTorch's `weights_only` builds nothing
but tensors and plain containers; any other name in the file is an error before it is called. Only a
file of this name, or its numbered shards, is taken for weights.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bertwright.errors import DataError, IntegrityError

NAME = "pytorch_model.bin"

_DIGITS = "[0-9]" * 5
_LARGEST_PROGRAM = 1 << 20
"""Bytes of pickle instructions: a BERT Large has under 100 KB of them."""
_MOST_COPIES = 4
"""Bytes of tensors for each byte of the file: tied weights are stored once and written twice."""
_ARCHIVE = b"PK\x03\x04"
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def pickles_of(folder: Path) -> list[Path]:
    """The weights of a folder that are pickles: one file, or all its shards in order.

    Raises:
        IntegrityError: shards are missing.
    """
    if (folder / NAME).is_file():
        return [folder / NAME]
    found = sorted(folder.glob(f"pytorch_model-{_DIGITS}-of-{_DIGITS}.bin"))
    count = len(found)
    if found and found[-1].name != f"pytorch_model-{count:05}-of-{count:05}.bin":
        raise IntegrityError(f"{folder} has {count} shards of {NAME}; some are missing")
    return found


def is_pickle(path: Path) -> bool:
    """Whether a file begins as pickles and PyTorch's archives do."""
    return _start(path).startswith((_ARCHIVE, *_PICKLES))


def unpickle(pickles: list[Path], out: Path) -> None:
    """Write the tensors of pickles as one safetensors file.

    Raises:
        DataError: they hold something else than tensors by name.
        IntegrityError: a file is truncated, damaged or encrypted.
    """
    tensors: dict[str, Tensor] = {}
    for path in pickles:
        content = _read(path)
        if not isinstance(content, Mapping):
            raise DataError(f"{path} holds {type(content).__name__}; expected tensors by name")
        for name, value in content.items():
            if not isinstance(name, str) or not _has_numbers(value):
                what = f"{str(name)[:80]!r} in {path} is {type(value).__name__}"
                raise DataError(f"{what}; expected a named dense tensor")
            if name in tensors:
                raise DataError(f"{name[:80]!r} is in two shards, one of them {path}")
            tensors[name] = value.detach()
    needed = sum(value.numel() * value.element_size() for value in tensors.values())
    size = sum(path.stat().st_size for path in pickles)
    if needed > _MOST_COPIES * size:
        raise DataError(f"{pickles[0]} has {size} bytes for tensors of {needed}: no weights do")
    save_file({n: v.contiguous().clone() for n, v in tensors.items()}, out, {"format": "pt"})


def _read(path: Path) -> Any:
    """What a pickle holds, its tensors left in the file where it is an archive."""
    archive = _start(path) == _ARCHIVE  # PyTorch before 1.6 wrote bare pickles
    if archive:
        _check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # a hostile pickle may end in any
        named = re.search(r"[Uu]nsupported [^\n]{1,120}", str(error))
        why = named[0] if named else (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} is no pickle of weights alone ({why[:200]}); nothing of it was run"
        ) from error


def _has_numbers(value: Any) -> bool:
    """Whether it is a tensor that safetensors holds: not sparse, quantized or without memory."""
    dense = isinstance(value, Tensor) and value.layout is torch.strided
    return dense and not value.is_quantized and not value.is_meta


def _check_archive(path: Path) -> None:
    """Raise unless an archive is packed as PyTorch does: nothing in it grows when it is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise IntegrityError(f"{path} is truncated or damaged ({error})") from error
    if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in members):
        raise DataError(f"{path} is compressed or encrypted; PyTorch's archives never are")
    size = sum(each.file_size for each in members if each.filename.endswith(".pkl"))
    if size > _LARGEST_PROGRAM:
        raise DataError(f"{path} has {size} bytes of instructions; expected {_LARGEST_PROGRAM}")


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
