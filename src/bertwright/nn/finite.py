"""A check that the results of a model are finite, so that no verb shows or writes infinity or NaN.

Finite weights may be so large that the results are not finite.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch

from bertwright.errors import DataError

T = TypeVar("T", bound=Any)


class NotFinite(DataError):
    """The results of a model are infinite or NaN."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the model gives {what} that are not finite (infinity or NaN): its training diverged; "
            "use an earlier checkpoint, or train it again with a lower learning rate"
        )


def require_finite(values: T, what: str) -> T:
    """Return `values`, a tensor or an array, unchanged.

    Raises:
        NotFinite: a value is infinite or NaN; the message calls the values `what`.
    """
    finite = torch.isfinite(values) if isinstance(values, torch.Tensor) else np.isfinite(values)
    if not bool(finite.all()):
        raise NotFinite(what)
    return values
