"""Fit a whitening on vectors, for `bertwright whiten`.

The mean and the covariance of the vectors are summed in float64 as the texts are read, so that
memory does not grow with their number. `inference/vectors/whitening.py` has the formula and applies
it.

Letters: n vectors, W their width, k the width of a whitened vector.
"""

from __future__ import annotations

import numpy as np

from bertwright.arrays import Float32s, Float64s
from bertwright.errors import ConfigError, DataError
from bertwright.inference.files.texts import Texts, bounded
from bertwright.inference.vectors.embed import Embedder
from bertwright.inference.vectors.whitening import Whitening
from bertwright.progress import OnProgress, silent

_FLOOR = 1e-6
"""Directions whose variance is below this fraction of the largest variance are left out as rounding
errors.
"""
_NOISE = 1e-10
"""Vectors whose largest variance is below this fraction of their mean square differ only by
float32's rounding.
"""


def fit_whitening(
    embedder: Embedder,
    texts: Texts,
    dimensions: int | None = None,
    on_progress: OnProgress = silent,
) -> tuple[Whitening, int]:
    """Return the whitening of the vectors of a file's texts, and the number of texts.

    The whitening is fitted on vectors that are neither whitened nor scaled to length 1.

    Args:
        embedder: the embedder that computes the vectors.
        texts: the texts to fit on.
        dimensions: k; None: all directions in which the vectors vary.
        on_progress: called with the number of texts done, and the number of all texts.

    Raises:
        ConfigError: `dimensions` is not between 1 and W.
        DataError: there are too few texts for so many dimensions, or their vectors do not differ.
    """
    raw = embedder.raw()
    moments = Moments(raw.width)
    moments.check(dimensions)
    for part in bounded(text for text, _ in texts.rows):
        moments.add(raw.embed(part))
        on_progress(moments.count, texts.total)
    return moments.fit(dimensions), moments.count


class Moments:
    """The number of vectors, their sum and the sum of their outer products, in float64."""

    def __init__(self, width: int) -> None:
        self.width, self.count = width, 0
        self.total: Float64s = np.zeros(width)
        self.squares: Float64s = np.zeros((width, width))

    def add(self, vectors: Float32s) -> None:
        """Add vectors `[n, W]` to the sums."""
        exact = vectors.astype(np.float64)
        self.count += len(exact)
        self.total += exact.sum(0)
        self.squares += exact.T @ exact

    def check(self, dimensions: int | None) -> None:
        """Raise ConfigError unless `dimensions` is None or between 1 and W."""
        if dimensions is not None and not 1 <= dimensions <= self.width:
            raise ConfigError(
                f"dimensions is {dimensions}; expected 1 to {self.width}, the numbers of a vector"
            )

    def fit(self, dimensions: int | None = None) -> Whitening:
        """Return the whitening of the vectors that were added.

        Args:
            dimensions: k; None: all directions in which the vectors vary.

        Raises:
            ConfigError: `dimensions` is not between 1 and W.
            DataError: there are too few vectors for so many dimensions, they are all the same, or
                some are not finite.
        """
        self.check(dimensions)
        if self.count < 2:
            raise DataError(f"a whitening is fitted on many texts; there are {self.count}")
        if not np.isfinite(self.squares).all():
            raise DataError("some vectors hold numbers that are not finite: is the model damaged?")
        mean = self.total / self.count
        covariance = self.squares / self.count - np.outer(mean, mean)
        variances, directions = np.linalg.eigh(covariance)
        variances, directions = variances[::-1], directions[:, ::-1]
        if variances[0] <= _NOISE * np.trace(self.squares) / self.count:
            raise DataError(
                f"the vectors of {self.count:,} texts are all the same: fit on texts that differ"
            )
        varying = int((variances > _FLOOR * variances[0]).sum())
        varying = min(varying, self.count - 1)
        if dimensions is not None and dimensions > varying:
            raise DataError(
                f"{self.count:,} texts vary in {varying:,} directions; expected {dimensions:,} or "
                "more: fit on more texts, or to fewer dimensions"
            )
        width = dimensions or varying
        kernel = directions[:, :width] / np.sqrt(variances[:width])
        return Whitening(mean.astype(np.float32), kernel.astype(np.float32))
