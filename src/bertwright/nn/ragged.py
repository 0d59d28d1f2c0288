"""Ragged tensors: the rows of several owners laid end to end, without padding.

Rows and owners are tokens of a window, windows of an example, words of a sentence, or choices of a
question. Each owner has its own number of rows, and every function works on all rows at once:
means, maxima and softmax by owner, and the order in which a recurrence reads them.

Letters: M rows, E owners, C columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bertwright.nn.host import send


def owners_of(counts: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Return the owner of each row, `[M]`, given the number of rows of each of E owners."""
    rows = torch.tensor(counts, dtype=torch.long)
    return send(torch.arange(len(counts)).repeat_interleave(rows), device)


def merge(x: Tensor, owners: Tensor, count: int, how: Literal["mean", "max"]) -> Tensor:
    """Reduce the rows of each owner to one row.

    Args:
        x: `[M, C]`.
        owners: `[M]`, from 0 to E - 1, in any order; each owner has at least one row.
        count: E.
        how: the mean or the maximum of each column over an owner's rows.

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
    """Return the log-softmax of each column over the rows of each owner.

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
    """Rows in the order of a recurrence: row 0 of every owner, then row 1 of every owner that has
    one, and so on. Owners with more rows come first.

    A step of the recurrence is thus one slice, and its owners are always the first ones.
    """

    order: Tensor
    """`[M]`: `x[order]` is packed."""
    inverse: Tensor
    """`[M]`: `packed[inverse]` is x."""
    sizes: list[int]
    """The number of owners that have a row 0, a row 1, and so on, without zeros; it never rises."""
    owners: Tensor
    """`[sizes[0]]`: the owners that have rows, those with more rows first."""
    owners_on_host: Tensor
    """A copy of `owners` on the host."""


def pack(counts: Sequence[int], device: torch.device | str) -> Packing:
    """Return the packing of owners, given the number of rows of each, which may be 0."""
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
