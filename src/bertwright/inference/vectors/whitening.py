"""Whitening: an affine map after which the dimensions of vectors are uncorrelated with variance 1.

The method is that of Su et al. 2021, "Whitening sentence representations for better semantics and
faster retrieval", section 2.3. Raw vectors of BERT lie in a narrow cone, so any two have a high
cosine; whitened vectors do not.

    x' = (x - mean) K,   K = U diag(1 / sqrt(s)),   U diag(s) U^T = covariance

The first k columns of K (largest s) reduce the dimension. `inference/files/fit_whitening.py` fits
the mean and K; this file applies, saves and loads them. Letters: n vectors, W their width, k the
width of a whitened vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_path
from bertwright.errors import DataError

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile)


@dataclass(frozen=True)
class Whitening:
    """A fitted whitening: the mean that is subtracted, and the matrix K."""

    mean: Float32s
    """`[W]`"""
    kernel: Float32s
    """`[W, k]`"""

    @property
    def width(self) -> int:
        """k, the width of a whitened vector."""
        return int(self.kernel.shape[1])

    def __call__(self, vectors: Float32s) -> Float32s:
        """Return the whitened vectors: `[n, W]` -> `[n, k]`."""
        return np.asarray((vectors - self.mean) @ self.kernel, np.float32)

    def save(self, path: Path) -> None:
        """Write the whitening to an `.npz` file, which appears by one rename."""
        with atomic_path(path, overwrite=True) as partial, partial.open("wb") as file:
            np.savez(file, mean=self.mean, kernel=self.kernel)


def load_whitening(path: str | Path) -> Whitening:
    """Return the whitening of a file that `Whitening.save` wrote.

    Raises:
        DataError: the file cannot be read, or does not hold a whitening.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = file["mean"], file["kernel"]
        if any(array.dtype.kind != "f" for array in arrays):
            raise ValueError("its numbers are not real")
        mean, kernel = (np.asarray(array, np.float32) for array in arrays)
    except _UNREADABLE as error:
        raise DataError(
            f"{path} holds no whitening ({error}); write one with bertwright whiten --out {path}"
        ) from error
    if mean.ndim != 1 or kernel.ndim != 2 or len(kernel) != len(mean) or not kernel.size:
        raise DataError(f"{path} holds no whitening: its shapes do not fit together")
    if not (np.isfinite(mean).all() and np.isfinite(kernel).all()):
        raise DataError(f"{path} holds no whitening: some of its numbers are not finite")
    return Whitening(mean, kernel)
