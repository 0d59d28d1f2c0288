"""Encode all examples of a feature-based run once, so that heads train on stored vectors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import torch

from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import TaskHardware
from bertwright.tasks.batch import instance_batches
from bertwright.tasks.head import Head
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.transfer.features import FeatureTable


def tabulate(
    learner: Learner,
    setups: Sequence[TaskSetup],
    hardware: TaskHardware,
    file: Path,
    on_progress: OnProgress = silent,
) -> tuple[FeatureTable, list[TaskSetup]]:
    """Encode all examples of all tasks once; return the table of vectors and the setups for it.

    Every head must specify the layers that it reads. In the returned setups, the ids of tokens are
    rows of the table.
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
        name, task = setup.task_name, setup.task
        for texts, rows in ((setup.train, after.train), (setup.dev, after.dev)):
            for chosen in instance_batches(texts.instances, hardware.predicted_tokens):
                batch, numbers = (
                    make_batch(name, task, data.instances, chosen, device, with_labels=False)
                    for data in (texts, rows)
                )
                with torch.inference_mode(), hardware.autocast():
                    table.put(numbers.inputs.ids, learner.encode(batch, [head]))
                done += batch.num_tokens
                on_progress(done, total)
    return table, numbered


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
