"""Folders of models with heads of every kind of task, of random weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.choices.options import MultipleChoiceOptions, MultipleChoiceTask
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask
from tests.checkpoint.conftest import (
    CONFIG,
    change,
)
from tests.small_bert import scatter
from tests.tasks.sample import unlabelled_batch

TAGS = ("O", "B-PER", "I-PER")
TEXT = ClassificationTask(labels=("bad", "fair", "good"), max_length=16, stride=4)
TAGGING = TaggingTask(labels=TAGS, scheme="iob2", max_length=16, stride=4)
CRF = TaggingOptions(crf=True)
TASKS = {
    "classes": TEXT,
    "labels": replace(TEXT, options=ClassificationOptions(multi_label=True)),
    "number": RegressionTask(max_length=16, stride=4),
    "tags": TAGGING,
    "answers": SpanTask(max_length=16, stride=4, unanswerable=True, null_threshold=-1.25),
    "choices": MultipleChoiceTask(
        max_length=16, stride=4, options=MultipleChoiceOptions(merge="max")
    ),
}
ODD = {
    "crf": replace(TAGGING, head=HeadConfig(dropout=0.25), options=CRF),
    "lstm": replace(TAGGING, head=HeadConfig(network="bilstm", network_size=7), options=CRF),
    "taglm": replace(TAGGING, head=HeadConfig(network="taglm", network_size=6)),
    "mixed": replace(TEXT, head=HeadConfig(layers="mix", pooling="max")),
    "mixed-lstm": replace(
        TASKS["answers"], head=HeadConfig(layers="second-to-last", network="bilstm", network_size=5)
    ),
    "one-label": replace(TEXT, labels=("always",)),
}


def tasks_learner(tasks: dict[str, TaskConfig], objectives: tuple[str, ...] = ()) -> Learner:
    """Every number random, also where heads start at 0."""
    learner = make_learner(CONFIG, objectives, tasks)
    scatter(learner, 0.2, 0.2)
    return learner.eval()


def saved(folder: Path, tasks: dict[str, TaskConfig], objectives: tuple[str, ...] = ()) -> Learner:
    folder.mkdir(exist_ok=True)
    learner = tasks_learner(tasks, objectives)
    save(folder, learner, None, "", tasks=tasks)
    return learner


IDS = torch.randint(5, 35, (4, 13), generator=torch.Generator().manual_seed(1))
TYPES = (torch.arange(13) > 6).long().expand(4, 13)


def inputs() -> Inputs:
    """Four windows of 13 tokens."""
    return Inputs(IDS.flatten(), Sequences([13] * 4), TYPES.flatten())


def scores(learner: Learner, name: str, kind: str) -> Tensor:
    asked = unlabelled_batch(kind, inputs(), name)
    head: Any = learner.eval().objectives[name]
    with torch.no_grad():
        found: Tensor = head.scores(learner.encode(asked, [head]), asked)
    return found


def change_task(folder: Path, **values: Any) -> None:
    """Change the first task of `task.json`."""
    (name, task), *_ = json.loads((folder / "task.json").read_text())["tasks"].items()
    change(folder / "task.json", tasks={name: {**task, **values}})
