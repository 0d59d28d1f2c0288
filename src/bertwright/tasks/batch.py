"""Build batches of tensors from instances, and group instances into batches.

Letters: see `tasks/head.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from bertwright.config.task import TaskConfig
from bertwright.data.batch import token_batches
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
    """Return the batch of the instances with the indices `rows`, for the head `name`.

    The batch's own `rows` say which example each result belongs to. For a span task they are the
    given indices in the order of the sequences; for tagging, the index of every sentence of an
    instance.

    Raises:
        ValueError: `rows` is empty, or a label is needed and not known.
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
    batch = kind_of(task.kind).collate(task, chosen, rows, with_labels)
    return replace(batch, task=name).to(device)


def instance_batches(
    instances: Sequence[Instance], most_tokens: int, rows: Sequence[int] | None = None
) -> list[list[int]]:
    """Return batches of instance indices (all, or `rows`), longest first.

    A batch has at most `most_tokens` tokens, or a single instance.
    """
    rows = range(len(instances)) if rows is None else rows
    lengths = [instances[row].num_tokens for row in rows]
    return [[rows[n] for n in part] for part in token_batches(lengths, most_tokens)]
