"""Batches of labelled windows, laid end to end, and how instances are grouped into them.

The windows of a batch are sorted, longest first, so that windows of nearly equal length are
neighbours (`nn/sequences.py`). Each kind of task has a class of batches, in its folder or here, if
several kinds share it.

Letters: B sequences (windows), N tokens in all, E examples, W words, C scores, R texts or words
that have a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Int64s
from bertwright.data.batch import collate, token_batches
from bertwright.nn.batch import Batch
from bertwright.nn.host import send
from bertwright.nn.sequences import Inputs
from bertwright.tasks.instances import Instance


@dataclass(frozen=True)
class TaskBatch(Batch):
    """The B windows of some examples of one task, end to end, longest first."""

    rows: tuple[int, ...]
    """[E]: the index of each example in its data, in the order of scores and labels."""

    @property
    def tokens(self) -> Tensor:
        """The token ids, `[N]`, as objectives of language modelling read them."""
        return self.inputs.ids

    @cached_property
    def positions(self) -> Tensor:
        """The positions of all tokens that are followed by another token of their window, `[N -
        B]`.
        """
        sequences = self.inputs.sequences
        is_followed = torch.ones(sequences.total, dtype=torch.bool)
        is_followed[torch.tensor(sequences.offsets[1:]) - 1] = False
        return send(is_followed.nonzero()[:, 0], sequences.device)


@dataclass(frozen=True)
class LinearBatch(TaskBatch):
    """A batch with one label for each text or each word, which a linear head can be fitted on."""

    labels: Tensor | None = None
    """`[R]`, or `[R, C]` if any number of labels may apply; None: they are not known."""

    @property
    def labelled(self) -> Sequence[int]:
        """[R]: the index of the example that each label belongs to."""
        return self.rows


@dataclass(frozen=True)
class TextBatch(LinearBatch):
    """A batch of texts or pairs: `labels` are classes `[E]` int64, 0 and 1 for each label `[E, C]`
    float32, or numbers `[E]` float32.
    """

    owners: Tensor | None = None
    """[B] int64: the index of the example that each window belongs to, 0 to E - 1. If the texts of
    a pair are read one by one, it is the index of the text, and pair n has the texts 2 n and 2 n +
    1.
    """


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


def instance_batches(
    instances: Sequence[Instance], most_tokens: int, rows: Sequence[int] | None = None
) -> list[list[int]]:
    """Return batches of instance indices (all, or `rows`), longest first.

    A batch has at most `most_tokens` tokens, or a single instance.
    """
    rows = range(len(instances)) if rows is None else rows
    lengths = [instances[row].num_tokens for row in rows]
    return [[rows[n] for n in part] for part in token_batches(lengths, most_tokens)]
