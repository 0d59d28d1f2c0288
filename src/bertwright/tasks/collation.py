"""Collate instances into NumPy arrays, end to end; `batch.py` turns them into tensors.

The windows of a batch are sorted, longest first, so that windows of nearly equal length are
neighbours (`nn/sequences.py`). Letters: see `tasks/head.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Int64s
from bertwright.data.batch import InputArrays, collate
from bertwright.tasks.instances import Instance


@dataclass(frozen=True)
class Collated:
    """A batch as arrays; the fields are those of `LabelledBatch`."""

    inputs: InputArrays
    rows: Sequence[int]
    labels: npt.NDArray[Any] | None
    owners: Int64s
    words: Int64s | None = None
    counts: tuple[int, ...] = ()
    first_words: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


class Windows(NamedTuple):
    """The windows of some instances, longest first."""

    inputs: InputArrays
    order: Int64s
    """[B]: the index of each window among all windows of the instances in their order."""
    owners: Int64s
    """[B]: the index of the instance that each window belongs to."""


def windows_of(instances: Sequence[Instance]) -> Windows:
    """Return the windows of all instances, longest first."""
    ids = [ids for instance in instances for ids in instance.ids]
    segments = [each for instance in instances for each in instance.segments]
    inputs, order = collate(ids, segments)
    owners = np.repeat(np.arange(len(instances)), [len(each.ids) for each in instances])
    return Windows(inputs, order, owners[order])


def flat(numbers: Iterable[Iterable[int]]) -> Int64s:
    """Return the numbers of all sequences in one array."""
    return np.fromiter(chain.from_iterable(numbers), np.int64)
