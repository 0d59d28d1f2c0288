"""Lay the windows of instances end to end, for the `collate` functions of all kinds of task.

The windows of a batch are sorted, longest first, so that windows of nearly equal length are
neighbours (`nn/sequences.py`). Letters: see `tasks/head.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from bertwright.arrays import Int64s
from bertwright.data.batch import collate
from bertwright.nn.sequences import Inputs
from bertwright.tasks.instances import Instance


class Windows(NamedTuple):
    """The windows of some instances, longest first."""

    inputs: Inputs
    lengths: Int64s
    """[B]: the number of tokens of each window."""
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
    lengths = np.array(inputs.sequences.lengths)
    return Windows(inputs, lengths, order, owners[order])


def flat(numbers: Iterable[Iterable[int]]) -> Int64s:
    """Return the numbers of all sequences in one array."""
    return np.fromiter(chain.from_iterable(numbers), np.int64)
