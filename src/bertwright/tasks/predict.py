"""Predict with a learner for examples of any kind of task.

Instances are scored longest first, in batches filled up to a number of tokens. The kind of task
decodes the scores (`Kind.decode`), or generates its predictions token by token
(`Kind.generate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, cast

import numpy as np
import torch

from bertwright.config.generation import GenerationConfig
from bertwright.errors import ConfigError
from bertwright.nn.encoder import Encoded
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.tasks.batch import instance_batches
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.head import Head
from bertwright.tasks.kind import Scored
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.train.hardware import Precision, autocast


def predict(
    learner: Learner,
    data: TaskData,
    precision: Precision = "fp32",
    batch_tokens: int = 4096,
    on_progress: OnProgress = silent,
    generation: GenerationConfig | None = None,
) -> list[Prediction]:
    """Return one prediction for each example, in order. Labels are ignored.

    A batch has about `batch_tokens` tokens. Targets are generated greedily unless `generation` says
    otherwise.

    Raises:
        NotFinite: the model computes scores that are infinite or NaN.
    """
    if data.name not in learner.objectives:
        raise ConfigError(
            f"the model has no head {data.name!r}; it has: "
            f"{', '.join(learner.objectives) or 'the encoder alone'}"
        )
    kind = kind_of(data.task.kind)
    if generation is not None and not kind.generates:
        raise ConfigError(
            f"a {data.task.kind} task generates no text, so options of generation such as beams "
            "and sampling have no effect: leave them out"
        )
    modes = [(module, module.training) for module in learner.modules()]
    learner.eval()
    predictions: dict[int, Prediction] = {}
    try:
        with torch.inference_mode():
            if kind.generates:
                done = 0
                for row, prediction in kind.generate(
                    data.task,
                    data.tokenizer,
                    data.instances,
                    learner,
                    data.name,
                    precision,
                    batch_tokens,
                    generation,
                ):
                    predictions[row] = prediction
                    done += data.instances[row].num_tokens
                    on_progress(done, data.num_tokens)
            else:
                scored = _scored(learner, data, precision, batch_tokens, on_progress)
                predictions.update(kind.decode(data.task, data.examples, data.instances, scored))
    finally:
        for module, was_training in modes:  # a frozen encoder may have been in eval mode already
            module.training = was_training
    return [predictions[number] for number in range(len(data.examples))]


Window = tuple[int, int]
"""The index of an instance, and of one of its windows."""


def predict_encoded(
    learner: Learner, data: TaskData, encode: Callable[[list[Window]], Encoded]
) -> list[Prediction]:
    """Return one prediction for each example from vectors that the caller computes.

    `encode` returns the encoder's output for the given windows, in their order, end to end. All
    examples are one batch.
    """
    head, device = cast(Head[Any], learner.objectives[data.name]), _device(learner, data)
    lengths = [len(ids) for instance in data.instances for ids in instance.ids]
    windows = [(n, w) for n, each in enumerate(data.instances) for w in range(len(each.ids))]
    order = np.argsort(-np.array(lengths), kind="stable")  # as `collate` lays them
    rows = range(len(data.instances))
    with torch.inference_mode():
        batch = make_batch(data.name, data.task, data.instances, rows, device, with_labels=False)
        scores = head.scores(encode([windows[n] for n in order]), batch).float()
        require_finite(scores, "scores")
        scored = iter([Scored(batch, head, scores)])
        decode = kind_of(data.task.kind).decode
        predictions: dict[int, Prediction] = dict(
            decode(data.task, data.examples, data.instances, scored)
        )
    return [predictions[number] for number in range(len(data.examples))]


def _device(learner: Learner, data: TaskData) -> torch.device:
    own = learner.objectives[data.name].parameters()
    return next(chain(own, learner.encoder.parameters())).device


def _scored(
    learner: Learner,
    data: TaskData,
    precision: Precision,
    batch_tokens: int,
    on_progress: OnProgress,
) -> Iterator[Scored]:
    head, device = cast(Head[Any], learner.objectives[data.name]), _device(learner, data)
    done = 0
    for rows in instance_batches(data.instances, batch_tokens):
        batch = make_batch(data.name, data.task, data.instances, rows, device, with_labels=False)
        with autocast(device, precision):
            encoded = learner.encode(batch, [head])
            scores = head.scores(encoded, batch)
        yield Scored(batch, head, require_finite(scores.float(), "scores"))
        done += batch.num_tokens
        on_progress(done, data.num_tokens)
