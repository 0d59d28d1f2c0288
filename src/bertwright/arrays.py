"""NumPy arrays by their numbers; shapes stand where they are used, as `[N, H]`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Return start, start + 1, ... of each start, as many as its length, end to end.

    starts `[B]`, lengths `[B]` -> `[sum of lengths]`.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def write_array(file: BinaryIO, array: npt.NDArray[Any]) -> None:
    """Write the numbers of an array to a file, row by row.

    Unlike `array.tofile`, this raises an OSError with the system's reason where the disk is full.
    """
    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def new_memmap(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Any:
    """Create a file for an array of zeros and return the array, mapped.

    The file gets all of its space on the disk now. A mapped file without it would end the process
    by SIGBUS, without a message, at the first number for which the disk has no space.

    Raises:
        OSError: the disk is full, or the file may not be so large.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(1, size))
        else:
            for start in range(0, size, 1 << 20):
                file.write(bytes(min(1 << 20, size - start)))
    return np.memmap(path, dtype, "r+", shape=shape)
