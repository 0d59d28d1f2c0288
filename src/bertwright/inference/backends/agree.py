"""Compare the vectors of a backend with those of float32, before it is used."""

from __future__ import annotations

import torch
from torch import Tensor

from bertwright.errors import ConfigError

LEAST_EXACT = 0.9999
"""The least cosine with the reference that is allowed for a float32 backend. A lower cosine means
that an export is of another model.
"""
LEAST_COSINE = 0.99
"""The least cosine for a backend of lower precision."""


def least_cosine(vectors: Tensor, reference: Tensor) -> float:
    """Return the smallest cosine of corresponding rows, or -1 if one is not finite."""
    cosines = torch.nn.functional.cosine_similarity(vectors.float(), reference.float())
    return float(cosines.min()) if bool(cosines.isfinite().all()) else -1.0


def require_agreement(name: str, exact: bool, vectors: Tensor, reference: Tensor) -> float:
    """Return the least cosine of vectors `[n, W]` with those of float32.

    Raises:
        ConfigError: it is below what is allowed for a backend in float32, or in lower precision.
    """
    cosine = least_cosine(vectors, reference)
    least = LEAST_EXACT if exact else LEAST_COSINE
    if not cosine >= least:
        raise ConfigError(
            f"{name} gives other vectors than float32 (least cosine {cosine:.4f} over "
            f"{len(reference)} texts, expected {least} or more): is it of this model?"
        )
    return cosine
