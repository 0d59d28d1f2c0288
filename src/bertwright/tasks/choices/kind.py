"""Multiple choice: which of several texts is right (SWAG; Devlin et al. 2019, section 4.4).

**Instances.** Each choice is a sequence of its own, [CLS] A [SEP] B [SEP]. A is the text; B is the
common beginning of the choices followed by the choice, as in transformers' SWAG example. A long
pair is read in windows (`text/windows.py`); `Instance.owners` says which choice a window belongs
to.

**Head.** Each choice gets one score, from the pooler over [CLS], dropout and a linear layer, as in
`BertForMultipleChoice` of transformers; or from other layers (`HeadConfig`). The scores of a choice
that is read in several windows are averaged, or their maximum is taken. The loss is the
cross-entropy over an example's choices, whose number may differ between examples.

**Predictions.** The probability of a choice is the softmax over the choices of its example.

Letters: B windows, E examples, M choices in all, H hidden.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.errors import DataError, shorten
from bertwright.labelled.choices import CHOICES
from bertwright.labelled.examples import ChoiceExample
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.host import send_numbers
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import log_softmax, merge, owners_of
from bertwright.tasks.batch import TaskBatch, flat, windows_of
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.head import Head, TextHead
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
from bertwright.tasks.kind import Kind, RowColumns, Scored, ScoreGraph, are_texts, input_values
from bertwright.tasks.metrics import Metrics, calibration, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import ChoicePrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceInstance(Instance):
    """A text with all its choices, each divided into windows."""

    label: int | None = None
    """The index of the right choice."""
    owners: tuple[int, ...] = ()
    """The index of the choice that each window belongs to."""


@dataclass(frozen=True)
class ChoiceBatch(TaskBatch):
    """A batch of questions; the choices of all of them are numbered consecutively."""

    labels: Tensor | None = None
    """[E] int64: the index of the right choice among those of its example."""
    owners: Tensor | None = None
    """[B] int64: the index of the choice that each window belongs to."""
    counts: tuple[int, ...] = ()
    """[E]: the number of choices of each example."""


class MultipleChoice(TextHead[ChoiceBatch]):
    """Head that scores each choice of a multiple-choice question."""

    task: MultipleChoiceTask

    def __init__(self, spec: EncoderSpec, task: MultipleChoiceTask) -> None:
        super().__init__(spec, task, 1)

    def count(self, batch: ChoiceBatch) -> int:
        """Return E, the number of examples in a batch."""
        return len(batch.counts)

    def scores(self, encoded: Encoded, batch: ChoiceBatch) -> Tensor:
        """Return one score for each choice, `[M]` float32, for the choices of all examples in
        order.
        """
        scores = self.classifier(self.dropout(self.vectors(encoded, batch)))  # [B, 1]
        if batch.owners is not None:
            scores = merge(scores, batch.owners, sum(batch.counts), self.task.options.merge)
        score: Tensor = scores[:, 0]
        return score

    def forward(self, encoded: Encoded, batch: ChoiceBatch) -> Loss:
        """Return the loss summed over the examples of a batch."""
        assert batch.labels is not None
        scores = self.scores(encoded, batch)[:, None]  # [M, 1]
        count = len(batch.counts)
        owners = owners_of(batch.counts, scores.device)
        sizes = send_numbers(batch.counts, scores.device)
        gold = sizes.cumsum(0) - sizes + batch.labels  # [E]: the index of the right one among M
        logs = log_softmax(scores, owners, count)[gold]
        best = merge(scores.detach(), owners, count, "max")
        return Loss(-logs.sum(), count, (scores.detach()[gold] >= best).sum())


class MultipleChoiceKind(Kind[MultipleChoiceTask, ChoiceExample, ChoiceInstance, ChoicePrediction]):
    """Multiple choice."""

    name = "multiple-choice"
    task_class = MultipleChoiceTask
    prediction = ChoicePrediction
    reader = CHOICES
    example = ChoiceExample
    fields = (("text", "choices", "label"), ("text", "text2", "choices", "label"))
    inputs = ("text", "text2", "choices")
    expected_input = "a text and a list of choices"
    graph = ScoreGraph(
        lambda inputs: ChoiceBatch(inputs, rows=(0,), counts=(1,)), choices=True, one_number=True
    )

    def parse_input(self, given: Any) -> ChoiceExample | None:
        values = input_values(given, ChoiceExample, ("text", "choices", "text2"))
        if values is None:
            return None
        text, choices, begin = values
        choices = () if isinstance(choices, str) else tuple(choices)
        fits = len(choices) > 1 and are_texts(text, *choices) and isinstance(begin, str | None)
        return ChoiceExample(text, choices, begin or "") if fits else None

    def row(self, task: MultipleChoiceTask) -> RowColumns:
        return RowColumns(("text", "choices"), "a text and its choices", lists_the_rest=True)

    def make(
        self, task: MultipleChoiceTask, tokenizer: Tokenizer, examples: Sequence[ChoiceExample]
    ) -> tuple[list[ChoiceInstance], Lengths]:
        """Return one instance for each example, with the windows of all its choices.

        `Lengths` counts the tokens of an example's longest choice.
        """

        def texts_of(example: ChoiceExample) -> dict[str, str]:
            begin = f"{example.text2} " if example.text2 else ""
            read = {
                f"choice {n}": text.strip() and begin + text
                for n, text in enumerate(example.choices)
            }
            return {"text": example.text} | read

        framing = tokenizer.framing
        instances: list[ChoiceInstance] = []
        lengths = Lengths()
        for number, example, (first, *seconds) in tokenized(tokenizer, examples, texts_of):
            count = len(seconds)
            most = max(1, task.most_windows // count)  # windows of each choice
            read = [make_windows(task, framing, first, second, most) for second in seconds]
            ids = tuple(window for windows, *_ in read for window in windows)
            segments = tuple(window for _, windows, _ in read for window in windows)
            owners = tuple(n for n, (windows, *_) in enumerate(read) for _ in windows)
            instances.append(ChoiceInstance(number, ids, segments, example.label, owners=owners))
            longest = max(whole_length(framing, first, second) for second in seconds)
            lengths.add(longest, len(ids), max(lost for *_, lost in read), count)
        return instances, lengths

    def collate(
        self,
        task: MultipleChoiceTask,
        instances: Sequence[ChoiceInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> ChoiceBatch:
        windows = windows_of(instances)
        counts = [max(instance.owners) + 1 for instance in instances]
        sizes = np.array(counts, np.int64)
        before = sizes.cumsum() - sizes
        own = flat(instance.owners for instance in instances)[windows.order]
        labels = torch.tensor([each.label for each in instances]) if with_labels else None
        return ChoiceBatch(
            windows.inputs,
            rows=tuple(rows),
            labels=labels,
            owners=torch.from_numpy(own + before[windows.owners]),
            counts=tuple(counts),
        )

    def head(self, spec: EncoderSpec, task: MultipleChoiceTask) -> Head[ChoiceBatch]:
        return MultipleChoice(spec, task)

    def decode(
        self,
        task: MultipleChoiceTask,
        examples: Sequence[ChoiceExample],
        instances: Sequence[ChoiceInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, ChoicePrediction]]:
        """Yield the most probable choice of each example."""
        for batch, _, scores in scored:
            parts = torch.split(scores.cpu(), list(batch.counts))
            for row, part in zip(batch.rows, parts, strict=True):
                probabilities = torch.softmax(part, 0)
                choice = int(probabilities.argmax())
                yield row, ChoicePrediction(choice, tuple(probabilities.tolist()))

    def parse_prediction(self, value: Any, example: ChoiceExample, where: str) -> ChoicePrediction:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if number not in range(len(example.choices)):
            expected = f"a number that counts from 0, up to {len(example.choices) - 1}"
            raise DataError(f"{where}: the prediction is {shorten(value)}; expected {expected}")
        scores = [float(n == number) for n in range(len(example.choices))]
        return ChoicePrediction(int(number), tuple(scores))

    def metric_names(self, task: MultipleChoiceTask) -> tuple[str, ...]:
        return ("accuracy",)

    def metrics(
        self,
        task: MultipleChoiceTask,
        examples: Sequence[ChoiceExample],
        predictions: Sequence[ChoicePrediction],
    ) -> Metrics:
        """Return the accuracy of the predicted choices."""
        gold = np.array([e.label for e in examples], dtype=np.int64)
        predicted = np.array([p.choice for p in predictions], dtype=np.int64)
        confidence = np.array([p.scores[p.choice] for p in predictions])
        right = np.stack([gold == predicted, np.ones(len(gold))], axis=1)
        return Metrics(
            main="accuracy",
            statistic=of_sums(right, lambda sums: {"accuracy": ratio(sums[:, 0], sums[:, 1])}),
            errors={int(row): float(confidence[row]) for row in np.flatnonzero(gold != predicted)},
            describe=lambda row: (
                examples[row].choices[gold[row]],
                examples[row].choices[predicted[row]],
            ),
            degenerate=only_prediction(
                gold.tolist(), predicted.tolist(), lambda n: f"choice {n + 1}"
            ),
            calibration=calibration(confidence, gold == predicted),
        )

    def gold(self, example: ChoiceExample) -> int | None:
        return example.label

    def shown(self, example: ChoiceExample) -> tuple[str | None, str | None]:
        return example.text, example.text2 or None
