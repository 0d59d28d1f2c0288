"""A toy kind of task in one file: how often something happens in a text (Poisson regression).

It shows what a new kind brings: instances, a head, predictions and metrics, and the one record that
names them, one row of the catalogue (`add_toy_kind`). The loss of an example is exp(s) - y s, the
negative log-likelihood of a Poisson distribution with the rate exp(s), up to a constant.

Letters: B windows, E examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import TextExample
from bertwright.labelled.texts import NUMBERS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import merge
from bertwright.tasks.catalogue import KINDS, Entry
from bertwright.tasks.collation import windows_of
from bertwright.tasks.head import LabelledBatch, TextHead
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
from bertwright.tasks.kind import RowColumns, Scored, TaskKind, are_texts
from bertwright.tasks.metrics import Metrics, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import NumberPrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

NAME = "toy-count"


def make_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[TextExample]
) -> tuple[list[Instance], Lengths]:
    """Return one instance for each text."""
    instances, lengths = [], Lengths()
    for number, example, (ids,) in tokenized(tokenizer, examples, lambda e: {"text": e.text}):
        windows, segments, lost = make_windows(task, tokenizer.framing, ids)
        lengths.add(whole_length(tokenizer.framing, ids, None), len(windows), lost)
        instances.append(Instance(number, windows, segments, example.label))
    return instances, lengths


def collate_counts(
    task: TaskConfig, instances: Sequence[Instance], rows: Sequence[int], with_labels: bool
) -> LabelledBatch:
    """Return the batch of some instances."""
    windows = windows_of(instances)
    labels = torch.tensor([float(each.label) for each in instances]) if with_labels else None
    owners = torch.from_numpy(windows.owners)
    return LabelledBatch(windows.inputs, rows=tuple(rows), labels=labels, owners=owners)


class Counter(TextHead):
    """The logarithm of the rate of a text."""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head."""
        super().__init__(spec, task, 1)

    def count(self, batch: LabelledBatch) -> int:
        """E, the examples."""
        return len(batch.rows)

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """`[E]` float32."""
        scores: Tensor = self.classifier(self.dropout(self.vectors(encoded, batch)))  # [B, 1]
        assert batch.owners is not None
        return merge(scores, batch.owners, len(batch.rows), self.task.merge)[:, 0]

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Loss summed over the examples of a batch."""
        scores = self.scores(encoded, batch)
        assert batch.labels is not None
        return Loss((scores.exp() - batch.labels * scores).sum(), len(batch.rows), None)


def decode_counts(
    task: TaskConfig,
    examples: Sequence[TextExample],
    instances: Sequence[Instance],
    scored: Iterator[Scored],
) -> Iterator[tuple[int, NumberPrediction]]:
    """Yield the rate of each text."""
    for batch, _, scores in scored:
        for row, rate in zip(batch.rows, scores.exp().tolist(), strict=True):
            yield row, NumberPrediction(rate)


def count_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[NumberPrediction]
) -> Metrics:
    """A rate is correct if it rounds to the count."""
    gold = [round(float(str(example.label))) for example in examples]
    predicted = [round(prediction.value) for prediction in predictions]
    right = np.array([[a == b, 1] for a, b in zip(gold, predicted, strict=True)], np.float64)
    return Metrics(
        main="accuracy",
        statistic=of_sums(right, lambda sums: {"accuracy": ratio(sums[:, 0], sums[:, 1])}),
        errors={row: abs(a - b) for row, (a, b) in enumerate(zip(gold, predicted, strict=True))},
        describe=lambda row: (str(gold[row]), str(predicted[row])),
        degenerate=only_prediction(gold, predicted, str),
    )


def parse_input(given: Any) -> TextExample | None:
    """Return a text as an example."""
    return TextExample(given) if are_texts(given) else None


TOY_KIND = TaskKind[TextExample, Instance, NumberPrediction](
    name=NAME,
    reader=NUMBERS,
    fields=(("text", "label"),),
    inputs=("text",),
    parse_input=parse_input,
    expected_input="a text",
    row=lambda task: RowColumns((task.text_column or "text",), "a text"),
    make=make_instances,
    collate=collate_counts,
    head=Counter,
    decode=decode_counts,
    metric_names=lambda task: ("accuracy",),
    metrics=count_metrics,
    gold=lambda example: example.label,
    shown=lambda example: (example.text, None),
)


def add_toy_kind(patch: pytest.MonkeyPatch) -> None:
    """Enter it into the catalogue."""
    patch.setitem(KINDS, NAME, Entry("how often something happens in a text", lambda: TOY_KIND))
