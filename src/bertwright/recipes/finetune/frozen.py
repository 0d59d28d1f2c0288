"""Encode all examples of a feature-based run once, so that heads train on stored vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import torch

from bertwright.data.randomness import make_key, permutation
from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import TaskHardware
from bertwright.tasks.batch import instance_batches
from bertwright.tasks.head import Head
from bertwright.tasks.instances import Instance
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.transfer.features import FeatureTable

AT_ONCE = 256
"""The number of random instances that are encoded before the time is looked at again."""


def tabulate(
    learner: Learner,
    setups: Sequence[TaskSetup],
    hardware: TaskHardware,
    file: Path,
    on_progress: OnProgress = silent,
    seed: int = 1,
    seconds: float | None = None,
) -> tuple[FeatureTable, list[TaskSetup]]:
    """Encode all examples of all tasks once; return the table of vectors and the setups for it.

    Every head must specify the layers that it reads. In the returned setups, the ids of tokens are
    rows of the table. If encoding takes longer than `seconds`, they have a part of the training
    examples, drawn by `seed`.
    """
    device = hardware.device
    learner = learner.to(device).eval()
    heads = [learner.objectives[setup.task_name] for setup in setups]
    layers: set[int] = set()
    numbered, total = [], 0
    for setup, head in zip(setups, heads, strict=True):
        assert isinstance(head, Head)
        assert head.layers is not None
        layers.update(head.layers)
        train = _numbered(setup.train, total)
        dev = _numbered(setup.dev, total + setup.train.num_tokens)
        total += setup.train.num_tokens + setup.dev.num_tokens
        numbered.append(replace(setup, train=train, dev=dev))
    table = FeatureTable(file, total, layers, learner.encoder.spec)
    done = 0
    for setup, after, head in zip(setups, numbered, heads, strict=True):
        assert isinstance(head, Head)
        name, task, encoded = setup.task_name, setup.task, list[int]()
        for texts, rows in ((setup.train, after.train), (setup.dev, after.dev)):
            of_train = texts is setup.train
            order = permutation(make_key("vectors", seed), len(texts.instances)).tolist()
            in_time = seconds if of_train else None
            for chosen in batches_in_time(
                texts.instances, hardware.predicted_tokens, order, in_time
            ):
                batch, numbers = (
                    make_batch(name, task, data.instances, chosen, device, with_labels=False)
                    for data in (texts, rows)
                )
                with torch.inference_mode(), hardware.autocast():
                    table.put(numbers.inputs.ids, learner.encode(batch, [head]))
                done += batch.num_tokens
                on_progress(done, total)
                encoded += chosen if of_train else []
        if len(encoded) < len(setup.train.instances):
            share = len(encoded) / len(setup.train.instances)
            setup.facts["train"]["examples"] = round(share * setup.facts["train"]["examples"])
            after.train.instances = [after.train.instances[row] for row in sorted(encoded)]
    return table, numbered


def batches_in_time(
    instances: Sequence[Instance], most_tokens: int, order: Sequence[int], seconds: float | None
) -> Iterator[list[int]]:
    """Yield batches of instance indices; with `seconds`, until the time is over.

    The order of the batches is then random, because longest first would leave out short texts.
    """
    if seconds is None:
        yield from instance_batches(instances, most_tokens, sorted(order))
        return
    began = time.monotonic()
    for start in range(0, len(order), AT_ONCE):
        if start and time.monotonic() - began >= seconds:
            return
        yield from instance_batches(instances, most_tokens, order[start : start + AT_ONCE])


def _numbered(data: TaskData, start: int) -> TaskData:
    """Return a copy of the data whose token ids are replaced by row numbers, from `start` on."""
    numbered = copy(data)
    numbered.instances = []
    for instance in data.instances:
        windows = []
        for ids in instance.ids:
            windows.append(range(start, start + len(ids)))
            start += len(ids)
        numbered.instances.append(replace(instance, ids=tuple(windows)))
    return numbered
