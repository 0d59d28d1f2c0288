"""Functions that compare vectors, under the names that sentence-transformers gives them.

Letters: n, m texts, W the width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from bertwright.arrays import Float32s
from bertwright.config.vectors import SimilarityFunction
from bertwright.inference.vectors.embed import normalized


def cosines(a: Float32s, b: Float32s) -> Float32s:
    """Return the cosines of vectors `[n, W]` with vectors `[m, W]` as `[n, m]`."""
    found: Float32s = np.clip(normalized(a) @ normalized(b).T, -1, 1)
    return found


def _dots(a: Float32s, b: Float32s) -> Float32s:
    found: Float32s = a @ b.T
    return found


def _euclidean(a: Float32s, b: Float32s) -> Float32s:
    # row by row, since the differences of all pairs would take n m W numbers
    found: Float32s = -np.stack([np.linalg.norm(b - row, axis=1) for row in a])
    return found


def _manhattan(a: Float32s, b: Float32s) -> Float32s:
    found: Float32s = -np.stack([np.abs(b - row).sum(1) for row in a])
    return found


FUNCTIONS: Mapping[SimilarityFunction, Callable[[Float32s, Float32s], Float32s]] = {
    "cosine": cosines,
    "dot": _dots,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}
"""The functions by name. Each takes vectors `[n, W]` and `[m, W]` and returns `[n, m]`; a larger
value means that two vectors are more similar.
"""
