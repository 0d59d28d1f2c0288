"""Rows of several owners end to end: their sums, their softmax, and their order in time.

Tokens of a window, windows of an example, words of a sentence, choices of a question: each owner
has as many rows as it has. Everything here is over all rows at once.

Letters: M rows, E owners, C numbers a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bertwright.nn.host import send


def owners_of(counts: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """The owner of each row, `[M]`, from the E numbers of rows."""
    rows = torch.tensor(counts, dtype=torch.long)
    return send(torch.arange(len(counts)).repeat_interleave(rows), device)


def merge(x: Tensor, owners: Tensor, count: int, how: Literal["mean", "max"]) -> Tensor:
    """One row an owner.

    Args:
        x: `[M, C]`.
        owners: `[M]`, from 0 to E - 1, in any order; each owner has a row or more.
        count: E.
        how: the mean of an owner's rows, or the largest of each number.

    Returns:
        `[E, C]`.
    """
    merged = x.new_zeros(count, x.shape[1])
    if how == "max":
        index = owners[:, None].expand_as(x)
        return merged.scatter_reduce(0, index, x, "amax", include_self=False)
    rows = x.new_zeros(count).index_add(0, owners, x.new_ones(len(x)))
    return merged.index_add(0, owners, x) / rows[:, None]


def log_softmax(x: Tensor, owners: Tensor, count: int) -> Tensor:
    """`x - log(sum of exp(x) over the rows of the same owner)`, each column by itself.

    Args:
        x: `[M, C]`.
        owners: `[M]`, from 0 to E - 1.
        count: E.

    Returns:
        `[M, C]`.
    """
    shifted = x - merge(x.detach(), owners, count, "max")[owners]
    total = x.new_zeros(count, x.shape[1]).index_add(0, owners, shifted.exp())
    return shifted - total[owners].log()


@dataclass(frozen=True)
class Packing:
    """Rows by position, and by owner within a position, owners with most rows first.

    Row 0 of every owner, then row 1 of those that have one, and so on: a step of a recurrence is
    one slice, and the owners it is over are always the first ones.
    """

    order: Tensor
    """`[M]`: `x[order]` is packed."""
    inverse: Tensor
    """`[M]`: `packed[inverse]` is x again."""
    sizes: list[int]
    """Owners that have a row 0, a row 1, ...: falling, none 0."""
    owners: Tensor
    """`[sizes[0]]`: the owners that have rows, most rows first."""
    owners_on_host: Tensor
    """The same on the host."""


def pack(counts: Sequence[int], device: torch.device | str) -> Packing:
    """The packing of owners, each with its count of rows, which may be 0."""
    rows = torch.tensor(counts, dtype=torch.long)
    by_length = rows.argsort(descending=True, stable=True)
    rank = torch.empty_like(by_length)
    rank[by_length] = torch.arange(len(rows))
    starts = rows.cumsum(0) - rows
    owners = owners_of(counts)
    positions = torch.arange(len(owners)) - starts[owners]
    order = (positions * len(rows) + rank[owners]).argsort()
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    sizes = torch.bincount(positions).tolist()
    first = sizes[0] if sizes else 0
    return Packing(
        send(order, device),
        send(inverse, device),
        sizes,
        send(by_length[:first], device),
        by_length[:first],
    )
