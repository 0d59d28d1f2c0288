"""Whitening: vectors rotated and scaled until their numbers have one variance, uncorrelated.

Su et al. 2021, "Whitening sentence representations for better semantics and faster retrieval",
section 2.3. Raw vectors of BERT lie in a narrow cone, so any two have a high cosine; whitened ones
do not.

    x' = (x - mean) K,   K = U diag(1 / sqrt(s)),   U diag(s) U^T = covariance

The first k columns of K (largest s) reduce the dimension. Letters: n vectors, W their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from bertwright.arrays import Float32s, Float64s
from bertwright.atomic import atomic_path
from bertwright.errors import ConfigError, DataError

_FLOOR = 1e-6
"""Directions whose variance is below this fraction of the largest are rounding errors."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile)
_NOISE = 1e-10
"""A variance below this fraction of the mean square is float32's rounding."""


@dataclass(frozen=True)
class Whitening:
    """A mean and a matrix."""

    mean: Float32s
    """`[W]`"""
    kernel: Float32s
    """`[W, k]`"""

    @property
    def width(self) -> int:
        """k"""
        return int(self.kernel.shape[1])

    def __call__(self, vectors: Float32s) -> Float32s:
        """`[n, W]` -> `[n, k]`"""
        return np.asarray((vectors - self.mean) @ self.kernel, np.float32)

    def save(self, path: Path) -> None:
        """Write an `.npz`, by one rename."""
        with atomic_path(path, overwrite=True) as partial, partial.open("wb") as file:
            np.savez(file, mean=self.mean, kernel=self.kernel)


class Moments:
    """Sums over vectors, in float64: memory does not grow with n."""

    def __init__(self, width: int) -> None:
        self.width, self.count = width, 0
        self.total: Float64s = np.zeros(width)
        self.squares: Float64s = np.zeros((width, width))

    def add(self, vectors: Float32s) -> None:
        """Add `[n, W]`."""
        exact = vectors.astype(np.float64)
        self.count += len(exact)
        self.total += exact.sum(0)
        self.squares += exact.T @ exact

    def check(self, dimensions: int | None) -> None:
        """Raise ConfigError unless vectors can be whitened to so many dimensions."""
        if dimensions is not None and not 1 <= dimensions <= self.width:
            raise ConfigError(
                f"dimensions is {dimensions}; expected 1 to {self.width}, the numbers of a vector"
            )

    def fit(self, dimensions: int | None = None) -> Whitening:
        """The whitening of what was added.

        Args:
            dimensions: k; unset: all that vary.

        Raises:
            ConfigError: more dimensions than a vector has numbers, or none.
            DataError: too few vectors for so many dimensions, vectors that are all the same, or not
                finite.
        """
        self.check(dimensions)
        if self.count < 2:
            raise DataError(f"whitening is fitted on many texts; there are {self.count}")
        if not np.isfinite(self.squares).all():
            raise DataError("some vectors hold numbers that are not finite: is the model damaged?")
        mean = self.total / self.count
        covariance = self.squares / self.count - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
        if values[0] <= _NOISE * np.trace(self.squares) / self.count:
            raise DataError(
                f"the vectors of {self.count:,} texts are all the same: fit on texts that differ"
            )
        there = int((values > _FLOOR * values[0]).sum())
        there = min(there, self.count - 1)
        if dimensions is not None and dimensions > there:
            raise DataError(
                f"{self.count:,} texts vary in {there:,} directions; expected {dimensions:,} or "
                "more: fit on more texts, or to fewer dimensions"
            )
        kept = dimensions or there
        kernel = vectors[:, :kept] / np.sqrt(values[:kept])
        return Whitening(mean.astype(np.float32), kernel.astype(np.float32))


def load_whitening(path: str | Path) -> Whitening:
    """Read what `Whitening.save` wrote.

    Raises:
        DataError: no such file, or another one.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = file["mean"], file["kernel"]
        if any(array.dtype.kind != "f" for array in arrays):
            raise ValueError("other than real numbers")
        mean, kernel = (np.asarray(array, np.float32) for array in arrays)
    except _UNREADABLE as error:
        raise DataError(
            f"{path} holds no whitening ({error}); write one with bertwright embed --fit-whitening"
        ) from error
    if mean.ndim != 1 or kernel.ndim != 2 or len(kernel) != len(mean) or not kernel.size:
        raise DataError(f"{path} holds no whitening: its shapes do not fit together")
    if not (np.isfinite(mean).all() and np.isfinite(kernel).all()):
        raise DataError(f"{path} holds no whitening: some of its numbers are not finite")
    return Whitening(mean, kernel)
