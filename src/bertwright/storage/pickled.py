"""Read the tensors of `pytorch_model.bin`, a pickle; only `bertwright convert` does so.

Python's `pickle` can run code from the file that it opens. PyTorch's `weights_only` builds only
tensors and plain containers; any other name in the file raises an error before it is called. Only
files with this name, and its numbered shards, are read.
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
"""The maximum number of bytes of pickle instructions; BERT Large has under 100 KB."""
_MOST_COPIES = 4
"""The maximum number of bytes of tensors per byte of the file; tied weights are stored once and
written twice."""
_ARCHIVE = b"PK\x03\x04"
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def pickles_of(folder: Path) -> list[Path]:
    """Return the pickled weights of a folder: one file, or all its shards in order."""
    if (folder / NAME).is_file():
        return [folder / NAME]
    shards = sorted(folder.glob(f"pytorch_model-{_DIGITS}-of-{_DIGITS}.bin"))
    count = len(shards)
    if shards and shards[-1].name != f"pytorch_model-{count:05}-of-{count:05}.bin":
        raise IntegrityError(f"{folder} has {count} shards of {NAME}; some are missing")
    return shards


def is_pickle(path: Path) -> bool:
    """Return whether a file begins like a pickle or an archive of PyTorch."""
    return _start(path).startswith((_ARCHIVE, *_PICKLES))


def unpickle(pickles: list[Path], out: Path) -> None:
    """Write the tensors of pickles as one safetensors file."""
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
        raise DataError(
            f"{pickles[0]} has {size} bytes, but its tensors {needed}: these are no weights"
        )
    save_file({n: v.contiguous().clone() for n, v in tensors.items()}, out, {"format": "pt"})


def _read(path: Path) -> Any:
    """Return the content of a pickle; tensors of an archive are memory-mapped."""
    archive = _start(path) == _ARCHIVE  # PyTorch before 1.6 wrote bare pickles
    if archive:
        _check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # a hostile pickle may raise any exception
        named = re.search(r"[Uu]nsupported [^\n]{1,120}", str(error))
        why = named[0] if named else (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} is no pickle of weights alone ({why[:200]}); nothing of it was run"
        ) from error


def _has_numbers(value: Any) -> bool:
    """Return whether a value is a tensor that safetensors can store: dense, not quantized, and with
    data."""
    dense = isinstance(value, Tensor) and value.layout is torch.strided
    return dense and not value.is_quantized and not value.is_meta


def _check_archive(path: Path) -> None:
    """Raise an error unless an archive is stored without compression, as PyTorch stores it, so that
    its content is not larger than the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise IntegrityError(f"{path} is truncated or damaged ({error})") from error
    if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in members):
        raise DataError(f"{path} is compressed or encrypted; PyTorch's archives are neither")
    size = sum(each.file_size for each in members if each.filename.endswith(".pkl"))
    if size > _LARGEST_PROGRAM:
        raise DataError(
            f"{path} has {size} bytes of pickle instructions; expected at most {_LARGEST_PROGRAM}"
        )


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
