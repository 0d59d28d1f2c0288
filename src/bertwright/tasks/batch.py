"""Instances as batches of tensors, end to end, and which instances go together.

Letters: see `tasks/head.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.data.batch import token_batches
from bertwright.data.to_device import inputs_to_device
from bertwright.nn.host import send
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.head import LabelledBatch
from bertwright.tasks.instances import Instance


def make_batch(
    name: str,
    task: TaskConfig,
    instances: Sequence[Instance],
    rows: Sequence[int],
    device: torch.device | str = "cpu",
    with_labels: bool = True,
) -> LabelledBatch:
    """Return the batch of the instances numbered `rows`, for the head `name`.

    Its own `rows` say which results are of which: of a span task these numbers in the order of the
    sequences, of tagging the number of every sentence of an instance.

    Raises:
        ValueError: no rows, or a label that is wanted and not known.
    """
    chosen = [instances[row] for row in rows]
    if not chosen:
        raise ValueError("a batch of no instances")
    if with_labels:
        for row, instance in zip(rows, chosen, strict=True):
            if instance.label is None:
                raise ValueError(
                    f"instance {row} has no label; make the batch with with_labels=False"
                )
    made = kind_of(task.kind).collate(task, chosen, rows, with_labels)

    def put(array: npt.NDArray[Any]) -> Tensor:
        return send(torch.from_numpy(array), device)

    return LabelledBatch(
        task=name,
        inputs=inputs_to_device(made.inputs, device),
        rows=tuple(made.rows),
        labels=None if made.labels is None else put(made.labels),
        owners=put(made.owners),
        words=None if made.words is None else put(made.words),
        counts=made.counts,
        first_words=made.first_words,
        texts=made.texts,
    )


def instance_batches(
    instances: Sequence[Instance], most_tokens: int, rows: Sequence[int] | None = None
) -> list[list[int]]:
    """Numbers of instances, all or `rows`, longest first, in batches of at most so many tokens (or
    of one)."""
    rows = range(len(instances)) if rows is None else rows
    lengths = [instances[row].num_tokens for row in rows]
    return [[rows[n] for n in part] for part in token_batches(lengths, most_tokens)]
