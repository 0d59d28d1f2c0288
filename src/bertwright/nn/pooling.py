"""One vector for each sequence out of its tokens' vectors.

`weighted` is the position-weighted mean of SGPT (Muennighoff 2022, section 4.1):
`sum_t t x_t / sum_t t`, t from 1. Letters: B sequences, N tokens in all, H hidden, T a length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertwright.config.vectors import Pooling, check_pooling
from bertwright.nn.sequences import Sequences


def pool(
    x: Tensor, sequences: Sequences, pooling: Pooling, starts: Sequence[int] | None = None
) -> Tensor:
    """Pool each sequence by itself: no number depends on its neighbours in the batch.

    Args:
        x: `[N, H]`.
        sequences: the bounds.
        pooling: `cls`, `mean`, `max`, `mean-max` or `weighted`.
        starts: for `weighted`, B places from which positions count on, where a sequence is a
            window of a longer text; unset: all 0.

    Returns:
        `[B, H]` float32; `[B, 2 H]` for `mean-max`.
    """
    check_pooling(pooling)
    if pooling in ("none", "first-last"):
        raise ValueError(f"pooling {pooling!r} is not of one layer; the caller resolves it")
    if pooling == "cls":
        return x[sequences.first].float()
    parts, done = [], 0
    for group in sequences.groups:
        rows = x[group.start : group.stop].float()
        rows = rows.view(group.count, group.length, -1)  # [b, T, H]
        if pooling == "weighted":
            offsets = list(starts[done : done + group.count]) if starts else [0] * group.count
            parts.append(_weighted(rows, offsets))
        elif pooling == "mean-max":
            parts.append(torch.cat([rows.mean(1), rows.amax(1)], 1))
        else:
            parts.append(rows.mean(1) if pooling == "mean" else rows.amax(1))
        done += group.count
    return torch.cat(parts)


def _weighted(rows: Tensor, offsets: list[int]) -> Tensor:
    """`[b, T, H]` and b places to count from -> `[b, H]`"""
    positions = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=torch.float32)
    weights = positions + torch.tensor(offsets, device=rows.device)[:, None]  # [b, T]
    weights = weights / weights.sum(1, keepdim=True)
    return (rows * weights[:, :, None]).sum(1)
