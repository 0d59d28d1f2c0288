"""One vector for each sequence out of its tokens' vectors.

`weighted` is the position-weighted mean of SGPT (Muennighoff 2022, section 4.1):
`sum_t t x_t / sum_t t`, t from 1. Letters: B sequences, N tokens in all, H hidden, T a length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bertwright.config.vectors import poolings_of
from bertwright.nn.sequences import Sequences


def pool(
    x: Tensor, sequences: Sequences, pooling: str, starts: Sequence[int] | None = None
) -> Tensor:
    """Pool each sequence by itself: no number depends on its neighbours in the batch.

    Args:
        x: `[N, H]`.
        sequences: B lengths that sum to N.
        pooling: `cls`, `last`, `mean`, `mean-sqrt`, `max` or `weighted`, or several (`cls+mean`),
            P of them.
        starts: for `weighted`, B positions to count from, where a sequence is a
            window of a longer text; unset: all 0.

    Returns:
        `[B, P H]` float32.
    """
    if pooling in ("none", "first-last"):
        raise ValueError(f"pooling {pooling!r} is not of one layer; the caller resolves it")
    modes = poolings_of(pooling)
    if modes == ("cls",):
        return x[sequences.first].float()
    parts, done = [], 0
    for group in sequences.groups:
        rows = x[group.start : group.stop].float()
        rows = rows.view(group.count, group.length, -1)  # [b, T, H]
        offsets = list(starts[done : done + group.count]) if starts else [0] * group.count
        found = [_pool_rows(rows, mode, offsets) for mode in modes]
        parts.append(torch.cat(found, 1) if len(found) > 1 else found[0])
        done += group.count
    return torch.cat(parts)


def _pool_rows(rows: Tensor, mode: str, offsets: list[int]) -> Tensor:
    """`[b, T, H]` -> `[b, H]`"""
    if mode == "weighted":
        return _weighted(rows, offsets)
    if mode in ("cls", "last"):
        return rows[:, 0 if mode == "cls" else -1]
    if mode == "max":
        return rows.amax(1)
    mean = rows.mean(1)
    return mean * math.sqrt(rows.shape[1]) if mode == "mean-sqrt" else mean


def _weighted(rows: Tensor, offsets: list[int]) -> Tensor:
    """`[b, T, H]` and b positions to count from -> `[b, H]`"""
    positions = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=torch.float32)
    weights = positions + torch.tensor(offsets, device=rows.device)[:, None]  # [b, T]
    weights = weights / weights.sum(1, keepdim=True)
    return (rows * weights[:, :, None]).sum(1)
