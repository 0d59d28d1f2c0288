"""Instances as batches of tensors, end to end, and which instances go together.

The windows of a batch are sorted, longest first, so that equal lengths lie side by side
(`nn/sequences.py`); `owners` and `words` say whose each is. Letters: see `tasks/head.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertwright.arrays import Int64s
from bertwright.config.task import TaskConfig
from bertwright.data.batch import collate, token_batches
from bertwright.data.to_device import inputs_to_device
from bertwright.nn.host import send
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
    """The batch of the instances numbered `rows`, for the head `name`.

    These are the batch's `rows` too: of a span task in the order of its sequences, of tagging with
    every sentence of an instance. No rows, or a label that is wanted and not known, are a
    ValueError.
    """
    chosen = [instances[row] for row in rows]
    if not chosen:
        raise ValueError("a batch of no instances")
    windows = [len(instance.ids) for instance in chosen]
    ids = [ids for instance in chosen for ids in instance.ids]
    segments = [each for instance in chosen for each in instance.segments]
    prefixes: list[int] = []
    if task.kind == "generation":  # without labels the source alone, else all but what ends it
        prefixes = [instance.label for instance in chosen]
        ends = [len(x) - 1 for x in ids] if with_labels else prefixes
        ids = [x[:end] for x, end in zip(ids, ends, strict=True)]
        segments = [x[:end] for x, end in zip(segments, ends, strict=True)]
    inputs, order = collate(ids, segments)  # order [B]: which window, counted through, each is
    owners = np.repeat(np.arange(len(chosen)), windows)
    words: Int64s | None = None
    counts: tuple[int, ...] = ()
    tagged: dict[str, Any] = {}
    if task.kind == "span":
        chosen = [chosen[owner] for owner in owners[order]]
        rows = [rows[owner] for owner in owners[order]]
        owners = np.arange(len(order))  # each by itself, and already in order
    elif task.kind == "multiple-choice":
        counts = tuple(max(instance.owners) + 1 for instance in chosen)
        before = np.cumsum(counts) - counts
        own = _flat(instance.owners for instance in chosen)
        owners = (own + np.repeat(before, windows))[order]
    else:
        owners = owners[order]
    labels = _labels(task, chosen, rows) if with_labels else None
    if prefixes and with_labels:
        sources = np.array(prefixes)[order]
        inputs = replace(inputs, prefixes=sources)
        labels = _flat(chosen[n].ids[0][prefixes[n] :] for n in order)
        stops = inputs.lengths.cumsum()
        starts = stops - inputs.lengths + sources - 1
        words = np.concatenate([*map(np.arange, starts, stops)])
    if task.kind == "tagging":
        counts = tuple(chain.from_iterable(instance.counts for instance in chosen))
        starts = np.empty_like(inputs.lengths)
        starts[order] = inputs.lengths.cumsum() - inputs.lengths
        words = np.repeat(starts, [len(each.words) for each in chosen])
        words += _flat(each.words for each in chosen)
        rows = [each.example + n for each in chosen for n in range(len(each.counts))]
        tagged = {
            "texts": tuple(chain.from_iterable(each.texts for each in chosen)),
            "first_words": tuple(each.first_word for each in chosen for _ in each.counts),
        }

    def put(array: npt.NDArray[Any]) -> Tensor:
        return send(torch.from_numpy(array), device)

    return LabelledBatch(
        task=name,
        inputs=inputs_to_device(inputs, device),
        rows=tuple(rows),
        labels=None if labels is None else put(labels),
        owners=put(owners),
        words=None if words is None else put(words),
        counts=counts,
        **tagged,
    )


def instance_batches(
    instances: Sequence[Instance], most_tokens: int, rows: Sequence[int] | None = None
) -> list[list[int]]:
    """Numbers of instances, all or `rows`, longest first, in batches of at most so many tokens (or
    of one)."""
    rows = range(len(instances)) if rows is None else rows
    lengths = [instances[row].num_tokens for row in rows]
    return [[rows[n] for n in part] for part in token_batches(lengths, most_tokens)]


def _labels(task: TaskConfig, chosen: Sequence[Instance], rows: Sequence[int]) -> npt.NDArray[Any]:
    labels = [instance.label for instance in chosen]
    for row, label in zip(rows, labels, strict=True):
        if label is None:
            raise ValueError(f"instance {row} has no label; make the batch with with_labels=False")
    return _FORMS[task.kind](task, labels)


def _of_texts(task: TaskConfig, labels: list[Any]) -> npt.NDArray[Any]:
    if not task.multi_label:
        return np.array(labels, np.int64)
    held = np.zeros((len(labels), len(task.labels)), np.float32)
    held[np.repeat(np.arange(len(labels)), [len(n) for n in labels]), _flat(labels)] = 1
    return held


_FORMS: dict[str, Callable[[TaskConfig, list[Any]], npt.NDArray[Any]]] = {
    "classification": _of_texts,
    "regression": lambda task, labels: np.array(labels, np.float32),
    "tagging": lambda task, labels: _flat(labels),
    "span": lambda task, labels: np.array(labels, np.int64).reshape(-1, 2),
    "multiple-choice": lambda task, labels: np.array(labels, np.int64),
    "generation": lambda task, labels: np.array(labels, np.int64),
}


def _flat(numbers: Any) -> Int64s:
    return np.fromiter(chain.from_iterable(numbers), np.int64)
