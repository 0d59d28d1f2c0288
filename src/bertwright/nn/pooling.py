"""One vector for each sequence out of its tokens' vectors.

Letters: B sequences, N tokens in all, H hidden.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from bertwright.errors import ConfigError
from bertwright.nn.sequences import Sequences

Pooling = Literal["mean", "max", "cls"]
"""The mean of all tokens, [CLS] and [SEP] too; the largest of each number; the first token."""


def check_pooling(pooling: str) -> None:
    """Raise ConfigError unless `pooling` is one of the three."""
    if pooling not in get_args(Pooling):
        raise ConfigError(f"pooling is {pooling!r}; expected {', '.join(get_args(Pooling))}")


def pool(x: Tensor, sequences: Sequences, pooling: Pooling) -> Tensor:
    """Pool each sequence by itself: no number depends on its neighbours in the batch.

    Args:
        x: `[N, H]`.
        sequences: the bounds.
        pooling: how.

    Returns:
        `[B, H]` float32.
    """
    check_pooling(pooling)
    if pooling == "cls":
        return x[sequences.first].float()
    parts = []
    for group in sequences.groups:
        rows = x[group.start : group.stop].float()
        rows = rows.view(group.count, group.length, -1)  # [b, T, H]
        parts.append(rows.mean(1) if pooling == "mean" else rows.amax(1))
    return torch.cat(parts)
