"""The predictions of a learner for examples of any kind of task, in their order.

Instances go longest first, in batches filled by tokens. A class has the softmax of the scores for
its probability, with multi-label the sigmoid of its own; a choice the softmax over the choices of
its example. A word has the likeliest tag, or that of the likeliest path where the head has a CRF.
The tokens of an answer are scored in every window, and the windows of an example decoded together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import cast

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s, Int64s
from bertwright.config.generation import GenerationConfig
from bertwright.errors import ConfigError
from bertwright.labelled.examples import SpanExample, TaggingExample
from bertwright.nn.encoder import Encoded
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress, silent
from bertwright.tasks.batch import instance_batches, make_batch
from bertwright.tasks.generation import generate_targets
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.instances import Instance
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    Prediction,
    TextPrediction,
)
from bertwright.tasks.span import decode_span
from bertwright.tasks.tagging import Tagger, decode_tagging
from bertwright.tasks.task_data import TaskData

Predicted = Iterator[tuple[int, Prediction]]
"""Numbers of examples, and their predictions."""

_LIKELY = 0.5


def predict(
    learner: Learner,
    data: TaskData,
    precision: str = "fp32",
    batch_tokens: int = 4096,
    on_progress: OnProgress = silent,
    generation: GenerationConfig | None = None,
) -> list[Prediction]:
    """One prediction an example, in their order, in batches of about `batch_tokens`; labels are not
    looked at. Targets are generated greedily unless `generation` says otherwise.

    Raises:
        NotFinite: the model gives scores that are infinite or NaN.
        ConfigError: the learner has no such head, or `generation` is given to another kind of task.
    """
    if data.name not in learner.objectives:
        raise ConfigError(
            f"the model has no head {data.name!r}; it has: "
            f"{', '.join(learner.objectives) or 'the encoder alone'}"
        )
    if generation is not None and data.task.kind != "generation":
        raise ConfigError(
            f"beams, sampling and what else decides a generated text are not of a {data.task.kind} "
            "task: leave them out"
        )
    modes = [(module, module.training) for module in learner.modules()]
    learner.eval()
    found: dict[int, Prediction] = {}
    try:
        with torch.inference_mode():
            if data.task.kind == "generation":
                how = precision, batch_tokens, generation, on_progress
                found.update(generate_targets(learner, data, *how))
            else:
                scored = _scored(learner, data, precision, batch_tokens, on_progress)
                found.update(_READERS[data.task.kind](data, scored))
    finally:
        for module, was_training in modes:  # a frozen encoder may be in eval mode alone
            module.training = was_training
    return [found[number] for number in range(len(data.examples))]


Window = tuple[int, int]
"""Numbers of an instance and of a window of it."""


def predict_encoded(
    learner: Learner, data: TaskData, encode: Callable[[list[Window]], Encoded]
) -> list[Prediction]:
    """One prediction an example, in one batch, of vectors that are made elsewhere: `encode` gives
    what the head reads of these windows, in this order, end to end."""
    head, device = cast(Head, learner.objectives[data.name]), _device(learner, data)
    lengths = [len(ids) for instance in data.instances for ids in instance.ids]
    windows = [(n, w) for n, each in enumerate(data.instances) for w in range(len(each.ids))]
    order = np.argsort(-np.array(lengths), kind="stable")  # as `collate` lays them
    rows = range(len(data.instances))
    with torch.inference_mode():
        batch = make_batch(data.name, data.task, data.instances, rows, device, with_labels=False)
        scores = head.scores(encode([windows[n] for n in order]), batch).float()
        require_finite(scores, "scores")
        found = dict(_READERS[data.task.kind](data, iter([(batch, head, scores)])))
    return [found[number] for number in range(len(data.examples))]


def _device(learner: Learner, data: TaskData) -> torch.device:
    return next(learner.objectives[data.name].parameters()).device


Scored = Iterator[tuple[LabelledBatch, Head, Tensor]]


def _scored(
    learner: Learner, data: TaskData, precision: str, batch_tokens: int, on_progress: OnProgress
) -> Scored:
    head, device = cast(Head, learner.objectives[data.name]), _device(learner, data)
    done = 0
    for rows in instance_batches(data.instances, batch_tokens):
        batch = make_batch(data.name, data.task, data.instances, rows, device, with_labels=False)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            encoded = learner.encode(batch, [head])
            scores = head.scores(encoded, batch)
        yield (
            batch,
            head,
            require_finite(scores.float(), "scores"),
        )
        done += batch.num_tokens
        on_progress(done, data.num_tokens)


def _texts(data: TaskData, scored: Scored) -> Predicted:
    labels, several = data.task.labels, data.task.multi_label
    for batch, _, scores in scored:
        probabilities = torch.sigmoid(scores) if several else torch.softmax(scores, 1)
        best = probabilities.argmax(1).tolist()
        for row, likeliest, own in zip(batch.rows, best, probabilities.tolist(), strict=True):
            label: str | tuple[str, ...] = labels[likeliest]
            if several:
                label = tuple(n for n, p in zip(labels, own, strict=True) if p >= _LIKELY)
            yield row, TextPrediction(label, dict(zip(labels, own, strict=True)))


def _numbers(data: TaskData, scored: Scored) -> Predicted:
    for batch, _, scores in scored:
        for row, value in zip(batch.rows, scores.tolist(), strict=True):
            yield row, NumberPrediction(value)


def _tags(data: TaskData, scored: Scored) -> Predicted:
    held: dict[int, dict[int, tuple[Float32s, Int64s]]] = {}  # parts of long sentences
    for batch, head, scores in scored:
        assert isinstance(head, Tagger)
        probabilities = head.probabilities(scores, batch).cpu().numpy()
        tags = head.decode(scores, batch).cpu().numpy()
        ends = accumulate(batch.counts)
        for row, first, count, end in zip(
            batch.rows, batch.first_words, batch.counts, ends, strict=True
        ):
            example, own = cast(TaggingExample, data.examples[row]), slice(end - count, end)
            parts = held.setdefault(row, {})
            parts[first] = probabilities[own], tags[own]
            if sum(len(found) for _, found in parts.values()) == len(example.words):
                whole = zip(*(parts[first] for first in sorted(parts)), strict=True)
                yield row, decode_tagging(data.task, example, *map(np.concatenate, whole))
                del held[row]


def _spans(data: TaskData, scored: Scored) -> Predicted:
    windows: dict[int, list[tuple[Instance, Float32s]]] = {}
    for batch, _, scores in scored:
        values, offsets = scores.cpu().numpy(), batch.inputs.sequences.offsets
        for number, row in enumerate(batch.rows):
            instance = data.instances[row]
            own = values[offsets[number] : offsets[number + 1]]
            windows.setdefault(instance.example, []).append((instance, own))
    for number, own_windows in windows.items():
        example = cast(SpanExample, data.examples[number])
        yield number, decode_span(data.task, example, own_windows)


def _choices(data: TaskData, scored: Scored) -> Predicted:
    for batch, _, scores in scored:
        parts = torch.split(scores.cpu(), list(batch.counts))
        for row, own in zip(batch.rows, parts, strict=True):
            likely = torch.softmax(own, 0)
            yield row, ChoicePrediction(int(likely.argmax()), tuple(likely.tolist()))


_READERS: dict[str, Callable[[TaskData, Scored], Predicted]] = {
    "classification": _texts,
    "regression": _numbers,
    "tagging": _tags,
    "span": _spans,
    "multiple-choice": _choices,
}
