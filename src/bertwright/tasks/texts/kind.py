"""Classification and regression of a text or a pair: one class, any number of labels, or a number.

**Instances.** A text is [CLS] A [SEP], a pair [CLS] A [SEP] B [SEP] (Devlin et al. 2019, section 4
and figure 4). A longer one is read in windows (`text/windows.py`), up to `max_windows`. With
`both_orders`, a pair is read as A B and as B A, and the scores are merged, which for a linear head
is like merging their vectors (Radford et al. 2018, section 3.3, similarity). A text that the
tokenizer removes, such as a zero-width space, is [CLS] [SEP]; an empty or blank text is an error.
Special tokens written in a text ("[SEP]") are plain text, as in `Tokenizer.encode`.

**Head.** Scores are computed by the pooler over [CLS], dropout and a linear layer, as in
`BertForSequenceClassification` of transformers (section 4.1); or from other layers, pooled or read
by an LSTM (`HeadConfig`). The scores of a text in several windows are averaged, or their maximum is
taken. They are merged before the loss, so that each example has one loss.

| task | loss of an example | correct if |
|---|---|---|
| classes | -w_y log softmax(s)[y] | the largest score is y's |
| any number of labels | mean over C of w_c (-log sigmoid of s_c, or of -s_c) | all agree |
| a number | (s - y)^2 | - |

Class weights: the loss is the weighted sum divided by the number of examples. PyTorch divides by
the sum of the weights instead, which differs from batch to batch. The two agree over a training set
if the weights have a mean of 1 over it, which the caller must ensure.

**Predictions.** The probability of a class is the softmax of the scores, or with multi-label the
sigmoid of its own score.

Letters: B windows, E examples, C scores, H hidden.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import Label, TextExample, classes_of
from bertwright.labelled.file import Read
from bertwright.labelled.texts import CLASSES, NUMBERS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import merge
from bertwright.tasks.baselines import number_baselines, text_baselines
from bertwright.tasks.batch import TextBatch, flat, windows_of
from bertwright.tasks.head import Head, TextHead, balanced_weights
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    make_windows,
    tokenized,
    whole_length,
)
from bertwright.tasks.kind import Kind, P, RowColumns, Scored, ScoreGraph
from bertwright.tasks.metrics import (
    Metrics,
    calibration,
    class_counts,
    class_statistic,
    confusion,
    multi_label_statistic,
    number_statistic,
    only_prediction,
    per_class,
)
from bertwright.tasks.predictions import NumberPrediction, TextPrediction, read_number
from bertwright.tasks.texts.options import (
    ClassificationTask,
    RegressionOptions,
    RegressionTask,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer

LIKELY = 0.5
"""The probability from which a label is predicted in multi-label classification."""
NEVER_VARIES = 0.01
"""Predicted numbers are constant if their standard deviation is less than this fraction of the
labels'.
"""


TrainedLabel = int | float | tuple[int, ...]
"""The index of a class; with multi-label, the indices of classes; for regression, the number."""


@dataclass(frozen=True)
class TextInstance(Instance):
    """A text or a pair, divided into windows."""

    label: TrainedLabel | None = None
    of_first: int = 0
    """The number of windows of the first text, if each text of a pair is read by itself."""


TextTask = ClassificationTask | RegressionTask


class ExampleHead(TextHead[TextBatch]):
    """Scores the windows of a text or a pair, and merges the scores of an example."""

    task: TextTask

    def count(self, batch: TextBatch) -> int:
        """Return E, the number of examples in a batch."""
        return len(batch.rows)

    def read(self, encoded: Encoded, batch: TextBatch) -> Tensor:
        """Return the vectors that the classifier scores, `[E, F]`: the mean over an example's
        windows.

        For pairs whose texts are read one by one, they are `[E, 4 F]`.
        """
        x, count = self.vectors(encoded, batch), len(batch.rows)
        assert batch.owners is not None
        if not self.task.head.compares:
            return merge(x, batch.owners, count, "mean")
        sides = merge(x, batch.owners, 2 * count, "mean")
        u, v = sides[0::2], sides[1::2]  # [E, F]
        return torch.cat([u, v, (u - v).abs(), u * v], 1)

    def scores(self, encoded: Encoded, batch: TextBatch) -> Tensor:
        """Return the scores of each example, `[E, C]` float32."""
        compares = self.task.head.compares
        x = self.read(encoded, batch) if compares else self.vectors(encoded, batch)
        scores: Tensor = self.classifier(self.dropout(x))  # [B, C], or of pairs compared [E, C]
        if batch.owners is not None and not compares:
            scores = merge(scores, batch.owners, len(batch.rows), self.task.options.merge)
        return scores


class Classifier(ExampleHead):
    """Head that scores the classes or labels of a text."""

    task: ClassificationTask

    def __init__(self, spec: EncoderSpec, task: ClassificationTask) -> None:
        """Build the head; raise ConfigError if it reads layers that the encoder does not have."""
        super().__init__(spec, task, len(task.labels))
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", None, persistent=False)
        """`[C]`, with a mean of 1 over the training examples; None: all are 1."""

    def forward(self, encoded: Encoded, batch: TextBatch) -> Loss:
        """Return the loss summed over the examples of a batch."""
        labels, weights = batch.labels, self.class_weights
        assert labels is not None
        scores = self.scores(encoded, batch)  # [E, C]
        if not self.task.options.multi_label:  # labels [E]
            total = F.cross_entropy(scores, labels, weights, reduction="sum")
            return Loss(total, len(batch.rows), (scores.argmax(1) == labels).sum())
        labels = labels.to(scores.dtype)  # [E, C]
        losses = F.binary_cross_entropy_with_logits(scores, labels, weights, reduction="none")
        correct = ((scores > 0) == (labels > 0.5)).all(1).sum()
        return Loss(losses.mean(1).sum(), len(batch.rows), correct)


class Regressor(ExampleHead):
    """Head that predicts a number for a text."""

    def __init__(self, spec: EncoderSpec, task: RegressionTask) -> None:
        """Build the head; raise ConfigError if it reads layers that the encoder does not have."""
        super().__init__(spec, task, 1)

    def scores(self, encoded: Encoded, batch: TextBatch) -> Tensor:
        """Return the number of each example, `[E]` float32."""
        return super().scores(encoded, batch)[:, 0]

    def forward(self, encoded: Encoded, batch: TextBatch) -> Loss:
        """Return the loss summed over the examples of a batch. None of them is right or wrong."""
        assert batch.labels is not None
        scores = self.scores(encoded, batch)
        total = F.mse_loss(scores, batch.labels.to(scores.dtype), reduction="sum")
        return Loss(total, len(batch.rows), None)


def classification_metrics(
    task: ClassificationTask, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """Return the metrics of single-label classification."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[cast(str, e.label)] for e in examples], dtype=np.int64)
    predicted = np.array([numbers[cast(str, p.label)] for p in predictions], dtype=np.int64)
    confidence = np.array([p.scores[cast(str, p.label)] for p in predictions])
    number = len(task.labels)
    positive = (task.labels.index("1") if "1" in task.labels else 1) if number == 2 else None
    parts = class_counts(gold, predicted, number)
    return Metrics(
        main="accuracy",
        statistic=class_statistic(parts, positive),
        errors={int(row): float(confidence[row]) for row in np.flatnonzero(gold != predicted)},
        describe=lambda row: (task.labels[gold[row]], task.labels[predicted[row]]),
        degenerate=only_prediction(gold.tolist(), predicted.tolist(), lambda n: task.labels[n]),
        per_class=per_class(parts.sum(axis=0), task.labels),
        confusion=confusion(gold, predicted, task.labels),
        calibration=calibration(confidence, gold == predicted),
    )


def label_set_metrics(
    task: ClassificationTask, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    """Return the metrics of multi-label classification."""
    labels = np.array(task.labels)
    gold = np.array([[label in classes_of(e) for label in task.labels] for e in examples])
    predicted = np.array([[label in p.label for label in task.labels] for p in predictions])
    scores = np.array([[p.scores[label] for label in task.labels] for p in predictions])
    surest = np.where(gold != predicted, np.maximum(scores, 1 - scores), 0).max(1)
    true, chosen = ([", ".join(labels[held]) for held in side] for side in (gold, predicted))
    return Metrics(
        main="micro_f1",
        statistic=multi_label_statistic(gold, predicted),
        errors={int(row): float(surest[row]) for row in np.flatnonzero(surest)},
        describe=lambda row: (true[row], chosen[row]),
        degenerate=only_prediction(true, chosen, lambda names: names or "no label"),
        per_class=per_class(
            np.stack([gold & predicted, predicted, gold]).sum(1).astype(np.float64), task.labels
        ),
    )


T = TypeVar("T", bound=TextTask)


class TextKind(Kind[T, TextExample, TextInstance, P]):
    """What classification and regression share."""

    example = TextExample
    fields = (("text", "label"), ("text", "text2", "label"))
    inputs = ("text", "text2")
    optional_inputs = ("text2",)
    expected_input = "a text, or two texts"
    linear = True
    has_baselines = True

    def is_linear(self, options: RegressionOptions) -> bool:
        return options.merge == "mean"

    def compares(self, options: RegressionOptions) -> bool:
        return not options.both_orders

    def make_task(
        self,
        options: RegressionOptions,
        read: Read,
        examples: Sequence[TextExample],
        **common: Any,
    ) -> T:
        if options.both_orders and read.columns.text2 is None:
            raise ConfigError(
                f"both_orders is for pairs, and {read.log.name} has one text a row; leave it out, "
                "or name the second text with --text2"
            )
        return super().make_task(options, read, examples, **common)

    def row(self, task: T) -> RowColumns:
        """Return the columns of a text or a pair, named as in training."""
        first, second = task.text_column or "text", task.text2_column or "text2"
        if task.text2_column is None:
            return RowColumns((first,), "a text")
        return RowColumns((first, second), "two texts")

    def make(
        self, task: T, tokenizer: Tokenizer, examples: Sequence[TextExample]
    ) -> tuple[list[TextInstance], Lengths]:
        """Return one instance for each text or pair."""

        def texts_of(example: TextExample) -> dict[str, str]:
            second = {} if example.text2 is None else {"text2": example.text2}
            return {"text": example.text} | second

        framing = tokenizer.framing
        instances: list[TextInstance] = []
        lengths = Lengths()
        for number, example, (first, *others) in tokenized(tokenizer, examples, texts_of):
            second = others[0] if others else None
            label = None if example.label is None else self.trained_label(task, example)
            if task.head.compares:
                if second is None:
                    raise DataError(
                        f"{in_words(example, number)}: one text, and this model compares two; "
                        "expected a pair"
                    )
                ids, segments, lost = make_windows(task, framing, first)
                more, more_segments, also_lost = make_windows(task, framing, second)
                whole = whole_length(framing, first, None) + whole_length(framing, second, None)
                lengths.add(whole, len(ids) + len(more), lost + also_lost, sequences=2)
                both, of_both = ids + more, segments + more_segments
                instances.append(TextInstance(number, both, of_both, label, of_first=len(ids)))
                continue
            ids, segments, lost = make_windows(task, framing, first, second)
            lengths.add(whole_length(framing, first, second), len(ids), lost)
            if task.options.both_orders and second is not None:
                ids_back, segments_back, _ = make_windows(task, framing, second, first)
                ids, segments = ids + ids_back, segments + segments_back
            instances.append(TextInstance(number, ids, segments, label))
        return instances, lengths

    @abstractmethod
    def trained_label(self, task: T, example: TextExample) -> TrainedLabel:
        """Return the label of an example as the head is trained to predict it."""

    @abstractmethod
    def array(self, task: T, labels: Sequence[Any]) -> npt.NDArray[Any]:
        """Return the labels of a batch, in the form of `TextBatch.labels`."""

    def collate(
        self,
        task: T,
        instances: Sequence[TextInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> TextBatch:
        """Return the batch of some instances, each with one label or a label set."""
        windows = windows_of(instances)
        owners = windows.owners
        if task.head.compares:  # texts are numbered: pair n has the texts 2 n and 2 n + 1
            sides = flat([0] * n.of_first + [1] * (len(n.ids) - n.of_first) for n in instances)
            owners = 2 * owners + sides[windows.order]
        labels = self.array(task, [each.label for each in instances]) if with_labels else None
        return TextBatch(
            windows.inputs,
            rows=tuple(rows),
            labels=None if labels is None else torch.from_numpy(labels),
            owners=torch.from_numpy(owners),
        )

    def gold(self, example: TextExample) -> Label | None:
        return example.label

    def shown(self, example: TextExample) -> tuple[str | None, str | None]:
        """Return the texts of an example, for a list of errors."""
        return example.text, example.text2 or None


class ClassificationKind(TextKind[ClassificationTask, TextPrediction]):
    """Classification: one class, or any number of labels."""

    name = "classification"
    task_class = ClassificationTask
    prediction = TextPrediction
    reader = CLASSES
    graph = ScoreGraph(lambda inputs: TextBatch(inputs, rows=(0,)))

    def head(self, spec: EncoderSpec, task: ClassificationTask) -> Head[TextBatch]:
        return Classifier(spec, task)

    def class_weights(
        self, task: ClassificationTask, examples: Sequence[TextExample]
    ) -> Tensor | None:
        if task.options.class_weights == "none":
            return None
        return balanced_weights(task.labels, examples, task.options.multi_label)

    def trained_label(self, task: ClassificationTask, example: TextExample) -> TrainedLabel:
        """Return the index of the class, or the sorted indices of all labels."""
        classes = tuple(sorted(task.labels.index(label) for label in classes_of(example)))
        return classes if task.options.multi_label else classes[0]

    def array(self, task: ClassificationTask, labels: Sequence[Any]) -> npt.NDArray[Any]:
        if not task.options.multi_label:
            return np.array(labels, np.int64)
        applies = np.zeros((len(labels), len(task.labels)), np.float32)
        applies[np.repeat(np.arange(len(labels)), [len(n) for n in labels]), flat(labels)] = 1
        return applies

    def decode(
        self,
        task: ClassificationTask,
        examples: Sequence[TextExample],
        instances: Sequence[TextInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, TextPrediction]]:
        """Yield the most probable class of each example, or with multi-label the probable
        labels.
        """
        labels, several = task.labels, task.options.multi_label
        for batch, _, scores in scored:
            probabilities = torch.sigmoid(scores) if several else torch.softmax(scores, 1)
            best = probabilities.argmax(1).tolist()
            for row, likeliest, of_row in zip(
                batch.rows, best, probabilities.tolist(), strict=True
            ):
                label: str | tuple[str, ...] = labels[likeliest]
                if several:
                    label = tuple(n for n, p in zip(labels, of_row, strict=True) if p >= LIKELY)
                yield row, TextPrediction(label, dict(zip(labels, of_row, strict=True)))

    def parse_prediction(self, value: Any, example: TextExample, where: str) -> TextPrediction:
        name = str(value)
        return TextPrediction(name, {name: 1.0})

    def metric_names(self, task: ClassificationTask) -> tuple[str, ...]:
        if task.options.multi_label:
            return "micro_f1", "macro_f1", "exact_match"
        f1 = ("f1",) if len(task.labels) == 2 else ()  # of the class "1", else of the second class
        return "accuracy", *f1, "macro_f1", "micro_f1", "matthews"

    def metrics(
        self,
        task: ClassificationTask,
        examples: Sequence[TextExample],
        predictions: Sequence[TextPrediction],
    ) -> Metrics:
        metrics = label_set_metrics if task.options.multi_label else classification_metrics
        return metrics(task, examples, predictions)

    def baselines(
        self,
        task: ClassificationTask,
        train: Sequence[TextExample],
        dev: Sequence[TextExample],
        seed: int,
        simplest: bool,
    ) -> Mapping[str, Sequence[TextPrediction]]:
        return text_baselines(task, train, dev, seed, simplest)


class RegressionKind(TextKind[RegressionTask, NumberPrediction]):
    """Regression: a number."""

    name = "regression"
    task_class = RegressionTask
    prediction = NumberPrediction
    reader = NUMBERS
    graph = ScoreGraph(lambda inputs: TextBatch(inputs, rows=(0,)), one_number=True)
    correlates = True

    def head(self, spec: EncoderSpec, task: RegressionTask) -> Head[TextBatch]:
        return Regressor(spec, task)

    def trained_label(self, task: RegressionTask, example: TextExample) -> TrainedLabel:
        return cast(float, example.label)

    def array(self, task: RegressionTask, labels: Sequence[Any]) -> npt.NDArray[Any]:
        return np.array(labels, np.float32)

    def start(self, head: Head[Any], examples: Sequence[TextExample]) -> None:
        """Initialize the head's bias with the mean of the training numbers, so that no step is
        spent on it.
        """
        numbers = [cast(float, example.label) for example in examples]
        nn.init.constant_(head.get_parameter("classifier.bias"), fmean(numbers))

    def decode(
        self,
        task: RegressionTask,
        examples: Sequence[TextExample],
        instances: Sequence[TextInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, NumberPrediction]]:
        """Yield the predicted number of each example."""
        for batch, _, scores in scored:
            values = torch.sigmoid(scores) if task.activation == "sigmoid" else scores
            for row, value in zip(batch.rows, values.tolist(), strict=True):
                yield row, NumberPrediction(value)

    def parse_prediction(self, value: Any, example: TextExample, where: str) -> NumberPrediction:
        return NumberPrediction(read_number(value, where))

    def metric_names(self, task: RegressionTask) -> tuple[str, ...]:
        # the third is the mean of the first two
        correlations = ("pearson", "spearman", "pearson_spearman")
        return *correlations, "mean_absolute_error", "mean_squared_error"

    def metrics(
        self,
        task: RegressionTask,
        examples: Sequence[TextExample],
        predictions: Sequence[NumberPrediction],
    ) -> Metrics:
        """Return the metrics of predicted numbers."""
        gold = np.array([float(cast(float, e.label)) for e in examples])
        predicted = np.array([p.value for p in predictions], dtype=np.float64)
        if not np.isfinite(predicted).all():
            row = int(np.flatnonzero(~np.isfinite(predicted))[0])
            raise DataError(f"prediction {row + 1} is {predicted[row]}; expected a number")
        constant = ""
        if len(set(gold.tolist())) > 1 and predicted.std() < NEVER_VARIES * gold.std():
            constant = f"predicts about {predicted.mean():.4g} for all {len(predicted)} examples"
        return Metrics(
            main="pearson",
            statistic=number_statistic(gold, predicted),
            errors=dict(enumerate(np.abs(predicted - gold).tolist())),
            describe=lambda row: (f"{gold[row]:.4g}", f"{predicted[row]:.4g}"),
            degenerate=constant,
        )

    def baselines(
        self,
        task: RegressionTask,
        train: Sequence[TextExample],
        dev: Sequence[TextExample],
        seed: int,
        simplest: bool,
    ) -> Mapping[str, Sequence[NumberPrediction]]:
        return number_baselines(task, train, dev, seed, simplest)
