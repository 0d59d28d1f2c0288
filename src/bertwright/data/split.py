"""Which documents are trained on and which are held out."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bertwright.arrays import Int64s
from bertwright.data.randomness import make_key, mix, uniform
from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, DataError

Split = Literal["train", "dev"]
FEW_DOCUMENTS = 20
"""Of fewer, two held out would be missed in training."""


def split_documents(shards: Shards, split: Split, validation_share: float) -> Int64s:
    """The documents of one split, rising.

    A document is held out if the hash of its number is under `validation_share`: no seed moves it,
    and a larger one only adds documents. Where this would hold out none or all of a small corpus,
    one document is; of twenty and more two are, as a random next sentence is of another document.

    Raises:
        ConfigError: `validation_share` is not in [0, 1).
        DataError: there is only one document, so none can be held out.
    """
    if not 0 <= validation_share < 1:
        raise ConfigError(
            f"validation_share is {validation_share}; expected a fraction from 0 to under 1"
        )
    count = shards.num_documents
    draws = uniform(mix(make_key("validation"), np.arange(count)))
    held_out = draws < validation_share
    least = 2 if count >= FEW_DOCUMENTS else 1
    if validation_share > 0 and (held_out.sum() < least or held_out.all()):
        if count < 2:
            raise DataError(
                f"{shards.folder} has one document, so none can be held out: is the blank line "
                "between documents missing (--documents line|file)? Otherwise pass "
                "--validation.share 0"
            )
        held_out = np.isin(np.arange(count), np.argsort(draws)[:least])
    if split == "dev" and not held_out.any():
        raise DataError("validation_share is 0: there are no held-out documents to evaluate on")
    return np.flatnonzero(held_out if split == "dev" else ~held_out)
