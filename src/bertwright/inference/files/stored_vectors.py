"""Files of vectors, `.npy`, `.jsonl` or `.parquet`: how their numbers are stored and read.

| dtype | a number is stored as |
|---|---|
| float32, float16 | itself |
| int8 | `round((x - low) / step) - 128`; `NAME.scales.npy` holds `[2, W]`: low and step |
| binary | whether it is above 0, eight in a byte, the first in the highest bit (`numpy.packbits`) |

NAME is the whole name: `v.npy.scales.npy`. Letters: n texts, W the width of a vector.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.arrays import Float32s
from bertwright.errors import ConfigError, DataError

Stored = Literal["float32", "float16", "int8", "binary"]
SUFFIXES = (".npy", ".jsonl", ".parquet")


class Coder:
    """Converts vectors to the numbers that are stored."""

    def __init__(self, dtype: Stored) -> None:
        self.dtype = dtype
        self.scales: Float32s | None = None
        """For int8: low and step, `[2, W]`, of the first vectors that were converted."""
        self.clipped = 0
        """For int8: how many numbers were outside the range of the first vectors."""

    def __call__(self, vectors: Float32s) -> npt.NDArray[Any]:
        """Return the stored form: `[n, W]` -> `[n, W]`, or `[n, W / 8]` bytes for binary."""
        if self.dtype == "binary":
            bits: npt.NDArray[Any] = np.packbits(vectors > 0, axis=1)
            return bits
        if self.dtype == "int8":
            if self.scales is None:
                low = vectors.min(0)
                step = np.maximum((vectors.max(0) - low) / 255, np.finfo(np.float32).tiny)
                self.scales = np.stack([low, step]).astype(np.float32)
            low, step = self.scales
            levels = np.round((vectors - low) / step)
            self.clipped += int(((levels < 0) | (levels > 255)).sum())
            return np.asarray(np.clip(levels, 0, 255) - 128, np.int8)
        stored: npt.NDArray[Any] = vectors.astype(self.dtype)
        return stored


def decode(stored: npt.NDArray[Any], scales: Float32s | None = None) -> Float32s:
    """Return stored vectors as float32; binary ones as -1 and 1. `scales` are those of int8.

    Raises:
        DataError: the numbers have no known form, or int8 lacks its scales.
    """
    if stored.dtype == np.uint8:
        return np.asarray(np.unpackbits(stored, axis=1), np.float32) * 2 - 1
    if stored.dtype == np.int8:
        shape = (2, stored.shape[1])
        if scales is None or scales.shape != shape or scales.dtype.kind != "f":
            there = "none are there" if scales is None else f"got {scales.dtype} {scales.shape}"
            raise DataError(
                f"vectors of int8 need their scales, float32 {shape}, in NAME.scales.npy beside "
                f"them; {there}"
            )
        return np.asarray((stored.astype(np.float32) + 128) * scales[1] + scales[0], np.float32)
    if stored.dtype.kind != "f":
        expected = "float32, float16, int8, or uint8 (binary)"
        raise DataError(f"the vectors are of type {stored.dtype}; expected {expected}")
    return np.asarray(stored, np.float32)


def check_suffix(out: Path, tokens: bool) -> None:
    """Raise ConfigError unless vectors can be written to a file with this suffix."""
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"--out is {out}; expected a name that ends in .npy, .jsonl or .parquet")
    if tokens and out.suffix == ".npy":
        raise ConfigError(
            f"--out is {out}; texts have tokens in different numbers: write .jsonl or .parquet"
        )


def scales_path(path: Path) -> Path:
    """Return the path of the scales of an int8 file."""
    return path.with_name(f"{path.name}.scales.npy")


def read_vectors(path: Path, texts: int | None = None) -> tuple[npt.NDArray[Any], Float32s | None]:
    """Return the vectors `[n, W]` of a `.npy`, memory-mapped, and their scales if they are int8.

    Raises:
        DataError: there is no such file, it is not a file of vectors, int8 lacks its scales, or n
            is not the number of texts, if this is given.
    """

    def read(path: Path) -> npt.NDArray[Any]:
        try:
            return npy.open_memmap(path, mode="r")
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no .npy of vectors ({error})") from error

    stored, beside = read(path), scales_path(path)
    if stored.ndim != 2:
        raise DataError(f"{path} has the shape {list(stored.shape)}; expected [n, W], a row a text")
    if texts is not None and len(stored) != texts:
        raise DataError(
            f"{path} has {len(stored):,} vectors for {texts:,} texts: embed the texts again"
        )
    scales = read(beside) if stored.dtype == np.int8 and beside.is_file() else None
    try:
        decode(stored[:0], scales)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return stored, scales
