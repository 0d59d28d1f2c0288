"""Feature-based runs: the encoder's vectors of all examples once, then heads on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from bertwright.objectives.labelled import Head
from bertwright.objectives.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.seed_run import Machine
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.tasks.batch import instance_batches, make_batch
from bertwright.tasks.task_data import TaskData
from bertwright.transfer.features import FeatureTable


def tabulate(
    learner: Learner,
    setups: Sequence[TaskSetup],
    machine: Machine,
    file: Path,
    on_progress: OnProgress = silent,
) -> tuple[FeatureTable, list[TaskSetup]]:
    """Encode all examples of all tasks once.

    Args:
        learner: an encoder under heads that read chosen layers.
        setups: the tasks.
        machine: where, and in what precision.
        file: of the table, on disk.
        on_progress: called with the tokens done.

    Returns:
        The table, and the setups with its rows in the place of ids.
    """
    learner = learner.to(machine.ranks.device).eval()
    layers: set[int] = set()
    for setup in setups:
        head = learner.objectives[setup.task_name]
        assert isinstance(head, Head)
        assert head.layers is not None
        layers.update(head.layers)
    ready, total = [], 0
    for setup in setups:
        train = _numbered(setup.train, total)
        total += setup.train.num_tokens
        dev = _numbered(setup.dev, total)
        total += setup.dev.num_tokens
        ready.append(replace(setup, train=train, dev=dev))
    table = FeatureTable(file, total, layers, learner.encoder.spec)
    done = 0
    for setup, numbered in zip(setups, ready, strict=True):
        for texts, rows in ((setup.train, numbered.train), (setup.dev, numbered.dev)):
            for batch in instance_batches(texts.instances, machine.micro_tokens):
                done += _encode(learner, setup, texts, rows, batch, table, machine)
                on_progress(done, total)
    return table, ready


def _numbered(data: TaskData, start: int) -> TaskData:
    """Data whose ids are the numbers of its tokens, counted through from `start`."""
    instances = []
    for instance in data.instances:
        windows = []
        for ids in instance.ids:
            windows.append(range(start, start + len(ids)))
            start += len(ids)
        instances.append(replace(instance, ids=tuple(windows)))
    return data.with_instances(instances)


def _encode(
    learner: Learner,
    setup: TaskSetup,
    texts: TaskData,
    rows: TaskData,
    chosen: list[int],
    table: FeatureTable,
    machine: Machine,
) -> int:
    """Put the vectors of some instances into their rows; how many tokens they are."""
    device = machine.ranks.device
    batches = [
        make_batch(setup.task_name, setup.task, data.instances, chosen, device, with_labels=False)
        for data in (texts, rows)
    ]
    head = learner.objectives[setup.task_name]
    assert isinstance(head, Head)
    enabled = machine.precision == "bf16"
    with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=enabled):
        table.put(batches[1].inputs.ids, learner.encode(batches[0], [head]))
    return batches[0].num_tokens
