"""A toy kind of task in two files, this one and `toy_options.py`: how often something happens in a
text (Poisson regression).

It shows what a new kind brings: instances, a head, predictions and metrics, and the class that
says them, one row of the catalogue (`add_toy_kind`). The loss of an example is exp(s) - y s, the
negative log-likelihood of a Poisson distribution with the rate exp(s), up to a constant.

Letters: B windows, E examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.labelled.examples import Label, TextExample
from bertwright.labelled.texts import NUMBERS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import merge
from bertwright.tasks import catalogue
from bertwright.tasks.batch import TextBatch, windows_of
from bertwright.tasks.catalogue import Entry
from bertwright.tasks.head import Head, TextHead
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
from bertwright.tasks.kind import Kind, Scored
from bertwright.tasks.metrics import Metrics, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import NumberPrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer
from tests.contract.toy_options import ToyOptions, ToyTask


class Counter(TextHead[TextBatch]):
    """The logarithm of the rate of a text."""

    task: ToyTask

    def __init__(self, spec: EncoderSpec, task: ToyTask) -> None:
        """Build the head."""
        super().__init__(spec, task, 1)

    def count(self, batch: TextBatch) -> int:
        """E, the examples."""
        return len(batch.rows)

    def scores(self, encoded: Encoded, batch: TextBatch) -> Tensor:
        """`[E]` float32."""
        scores: Tensor = self.classifier(self.dropout(self.vectors(encoded, batch)))  # [B, 1]
        assert batch.owners is not None
        return merge(scores, batch.owners, len(batch.rows), "mean")[:, 0]

    def forward(self, encoded: Encoded, batch: TextBatch) -> Loss:
        """Loss summed over the examples of a batch."""
        scores = self.scores(encoded, batch)
        assert batch.labels is not None
        return Loss((scores.exp() - batch.labels * scores).sum(), len(batch.rows), None)


class ToyKind(Kind[ToyTask, TextExample, Instance, NumberPrediction]):
    """How often something happens in a text."""

    name = "toy-count"
    task_class = ToyTask
    prediction = NumberPrediction
    reader = NUMBERS
    example = TextExample
    fields = (("text", "label"),)
    inputs = ("text",)
    expected_input = "a text"

    def make(
        self, task: ToyTask, tokenizer: Tokenizer, examples: Sequence[TextExample]
    ) -> tuple[list[Instance], Lengths]:
        """Return one instance for each text."""
        instances, lengths = [], Lengths()
        for number, example, (ids,) in tokenized(tokenizer, examples, lambda e: {"text": e.text}):
            windows, segments, lost = make_windows(task, tokenizer.framing, ids)
            lengths.add(whole_length(tokenizer.framing, ids, None), len(windows), lost)
            instances.append(Instance(number, windows, segments, example.label))
        return instances, lengths

    def collate(
        self,
        task: ToyTask,
        instances: Sequence[Instance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> TextBatch:
        """Return the batch of some instances."""
        windows = windows_of(instances)
        counts = [float(str(each.label)) for each in instances] if with_labels else None
        return TextBatch(
            windows.inputs,
            rows=tuple(rows),
            labels=None if counts is None else torch.tensor(counts),
            owners=torch.from_numpy(windows.owners),
        )

    def head(self, spec: EncoderSpec, task: ToyTask) -> Head[TextBatch]:
        """Return a new head."""
        return Counter(spec, task)

    def decode(
        self,
        task: ToyTask,
        examples: Sequence[TextExample],
        instances: Sequence[Instance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, NumberPrediction]]:
        """Yield the rate of each text."""
        for batch, _, scores in scored:
            for row, rate in zip(batch.rows, scores.exp().tolist(), strict=True):
                yield row, NumberPrediction(min(rate, task.options.most))

    def metric_names(self, task: ToyTask) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return ("accuracy",)

    def metrics(
        self,
        task: ToyTask,
        examples: Sequence[TextExample],
        predictions: Sequence[NumberPrediction],
    ) -> Metrics:
        """A rate is correct if it rounds to the count."""
        gold = [round(float(str(example.label))) for example in examples]
        predicted = [round(prediction.value) for prediction in predictions]
        pairs = list(zip(gold, predicted, strict=True))
        right = np.array([[a == b, 1] for a, b in pairs], np.float64)
        return Metrics(
            main="accuracy",
            statistic=of_sums(right, lambda sums: {"accuracy": ratio(sums[:, 0], sums[:, 1])}),
            errors={row: abs(a - b) for row, (a, b) in enumerate(pairs)},
            describe=lambda row: (str(gold[row]), str(predicted[row])),
            degenerate=only_prediction(gold, predicted, str),
        )

    def gold(self, example: TextExample) -> Label | None:
        """Return the count."""
        return example.label

    def shown(self, example: TextExample) -> tuple[str | None, str | None]:
        """Return the text."""
        return example.text, None


NAME = ToyKind.name


def add_toy_kind(patch: pytest.MonkeyPatch) -> None:
    """Enter it into the catalogue."""
    others = catalogue.import_kind
    patch.setitem(
        catalogue.KINDS, NAME, Entry("how often something happens in a text", ToyOptions, ToyTask)
    )
    patch.setattr(
        catalogue, "import_kind", lambda name: ToyKind() if name == NAME else others(name)
    )
