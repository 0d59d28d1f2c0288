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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import TextExample, classes_of
from bertwright.labelled.texts import CLASSES, NUMBERS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import merge
from bertwright.tasks.baselines import number_baselines, text_baselines
from bertwright.tasks.collation import flat, windows_of
from bertwright.tasks.head import Head, LabelledBatch, TextHead
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    make_windows,
    tokenized,
    whole_length,
)
from bertwright.tasks.kind import RowColumns, Scored, ScoreGraph, TaskKind, are_texts, input_values
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
from bertwright.text.tokenizer.tokenizer import Tokenizer

LIKELY = 0.5
"""The probability from which a label is predicted in multi-label classification."""
NEVER_VARIES = 0.01
"""Predicted numbers are constant if their standard deviation is less than this fraction of the
labels'.
"""


@dataclass(frozen=True)
class TextInstance(Instance):
    """A text or a pair, divided into windows."""

    label: int | float | tuple[int, ...] | None = None
    """The index of the class; with multi-label, the indices of classes; for regression, the
    number.
    """
    of_first: int = 0
    """The number of windows of the first text, if each text of a pair is read by itself."""


def make_text_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[TextExample]
) -> tuple[list[TextInstance], Lengths]:
    """Return one instance for each text or pair.

    Raises:
        DataError: a text is empty, or a pair is needed and there is only one text; the message
            names its line.
    """

    def texts_of(example: TextExample) -> dict[str, str]:
        second = {} if example.text2 is None else {"text2": example.text2}
        return {"text": example.text} | second

    framing = tokenizer.framing
    numbers = {label: number for number, label in enumerate(task.labels)}
    instances: list[TextInstance] = []
    lengths = Lengths()
    for number, example, (first, *others) in tokenized(tokenizer, examples, texts_of):
        second = others[0] if others else None
        label = _label(task, numbers, example)
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
        if task.both_orders and second is not None:
            ids_back, segments_back, _ = make_windows(task, framing, second, first)
            ids, segments = ids + ids_back, segments + segments_back
        instances.append(TextInstance(number, ids, segments, label))
    return instances, lengths


def _label(
    task: TaskConfig, numbers: dict[str, int], example: TextExample
) -> int | float | tuple[int, ...] | None:
    if example.label is None:
        return None
    if task.kind == "regression":
        return cast(float, example.label)
    classes = tuple(sorted(numbers[label] for label in classes_of(example)))
    return classes if task.multi_label else classes[0]


class Classifier(TextHead):
    """Head that scores the classes or labels of a text, or predicts a number."""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head.

        Args:
            spec: the specification of the encoder.
            task: a task of kind `classification` or `regression`.

        Raises:
            ConfigError: the head reads layers that the encoder does not have.
        """
        super().__init__(spec, task, task.num_scores)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", None, persistent=False)
        """`[C]`, with a mean of 1 over the training examples; None: all are 1."""
        self._loss_of: _LossOf = _squared_error if task.kind == "regression" else _one_class
        if task.multi_label:
            self._loss_of = _any_labels

    def count(self, batch: LabelledBatch) -> int:
        """Return E, the number of examples in a batch."""
        return len(batch.rows)

    def read(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
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

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """Return the scores before the softmax, `[E, C]` float32, or for regression the numbers,
        `[E]`.
        """
        compares = self.task.head.compares
        x = self.read(encoded, batch) if compares else self.vectors(encoded, batch)
        scores: Tensor = self.classifier(self.dropout(x))  # [B, C], or of pairs compared [E, C]
        if batch.owners is not None and not compares:
            scores = merge(scores, batch.owners, len(batch.rows), self.task.merge)
        return scores[:, 0] if self.task.kind == "regression" else scores  # [E, C]

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Return the loss summed over the examples of a batch."""
        assert batch.labels is not None
        scores = self.scores(encoded, batch)
        total, correct = self._loss_of(scores, batch.labels, self.class_weights)
        return Loss(total, len(batch.rows), correct)


def _one_class(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the number of right examples, from scores `[E, C]` and labels
    `[E]`.
    """
    total = F.cross_entropy(scores, labels, weights, reduction="sum")
    return total, (scores.argmax(1) == labels).sum()


def _any_labels(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the number of examples whose labels are all right, from scores and
    labels `[E, C]`.
    """
    labels = labels.to(scores.dtype)
    losses = F.binary_cross_entropy_with_logits(scores, labels, weights, reduction="none")
    return losses.mean(1).sum(), ((scores > 0) == (labels > 0.5)).all(1).sum()


def _squared_error(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, None]:
    """Return the summed loss from scores and labels `[E]`; a number is neither right nor wrong."""
    return F.mse_loss(scores, labels.to(scores.dtype), reduction="sum"), None


def classification_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
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
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
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


def regression_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[NumberPrediction]
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


_LossOf = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
"""Returns, from scores, labels and class weights, the summed loss and the number of right
examples.
"""


def collate_texts(
    task: TaskConfig, instances: Sequence[TextInstance], rows: Sequence[int], with_labels: bool
) -> LabelledBatch:
    """Return the batch of some instances, each with one label or a label set."""
    windows = windows_of(instances)
    owners = windows.owners
    if task.head.compares:  # texts are numbered: pair n has the texts 2 n and 2 n + 1
        sides = flat([0] * n.of_first + [1] * (len(n.ids) - n.of_first) for n in instances)
        owners = 2 * owners + sides[windows.order]
    labels = _labels_of(task, [each.label for each in instances]) if with_labels else None
    return LabelledBatch(
        windows.inputs,
        rows=tuple(rows),
        labels=None if labels is None else torch.from_numpy(labels),
        owners=torch.from_numpy(owners),
    )


def _labels_of(task: TaskConfig, labels: Sequence[Any]) -> npt.NDArray[Any]:
    """Return indices of classes `[E]`, 0 and 1 for each label `[E, C]`, or numbers `[E]`."""
    if not task.multi_label:
        return np.array(labels, np.float32 if task.kind == "regression" else np.int64)
    applies = np.zeros((len(labels), len(task.labels)), np.float32)
    applies[np.repeat(np.arange(len(labels)), [len(n) for n in labels]), flat(labels)] = 1
    return applies


def decode_classes(
    task: TaskConfig,
    examples: Sequence[TextExample],
    instances: Sequence[TextInstance],
    scored: Iterator[Scored],
) -> Iterator[tuple[int, TextPrediction]]:
    """Yield the most probable class of each example, or with multi-label the probable labels."""
    labels, several = task.labels, task.multi_label
    for batch, _, scores in scored:
        probabilities = torch.sigmoid(scores) if several else torch.softmax(scores, 1)
        best = probabilities.argmax(1).tolist()
        for row, likeliest, of_row in zip(batch.rows, best, probabilities.tolist(), strict=True):
            label: str | tuple[str, ...] = labels[likeliest]
            if several:
                label = tuple(n for n, p in zip(labels, of_row, strict=True) if p >= LIKELY)
            yield row, TextPrediction(label, dict(zip(labels, of_row, strict=True)))


def decode_numbers(
    task: TaskConfig,
    examples: Sequence[TextExample],
    instances: Sequence[TextInstance],
    scored: Iterator[Scored],
) -> Iterator[tuple[int, NumberPrediction]]:
    """Yield the predicted number of each example."""
    for batch, _, scores in scored:
        values = torch.sigmoid(scores) if task.activation == "sigmoid" else scores
        for row, value in zip(batch.rows, values.tolist(), strict=True):
            yield row, NumberPrediction(value)


def parse_text_input(given: Any) -> TextExample | None:
    """Return a text, or two texts, as an example; None if the input is neither."""
    values = input_values(given, TextExample, ("text", "text2"))
    if values is None:
        return None
    first, second = values
    fits = are_texts(first, first if second is None else second)
    return TextExample(first, second) if fits else None


def text_row(task: TaskConfig) -> RowColumns:
    """Return the columns of a text or a pair, named as in training."""
    first, second = task.text_column or "text", task.text2_column or "text2"
    if task.text2_column is None:
        return RowColumns((first,), "a text")
    return RowColumns((first, second), "two texts")


def _parse_class(value: Any, example: TextExample, where: str) -> TextPrediction:
    name = str(value)
    return TextPrediction(name, {name: 1.0})


def _parse_number(value: Any, example: TextExample, where: str) -> NumberPrediction:
    return NumberPrediction(read_number(value, where))


def _metric_names(task: TaskConfig) -> tuple[str, ...]:
    if task.multi_label:
        return "micro_f1", "macro_f1", "exact_match"
    f1 = ("f1",) if len(task.labels) == 2 else ()  # of the class "1", else of the second class
    return "accuracy", *f1, "macro_f1", "micro_f1", "matthews"


def _class_metrics(
    task: TaskConfig, examples: Sequence[TextExample], predictions: Sequence[TextPrediction]
) -> Metrics:
    metrics = label_set_metrics if task.multi_label else classification_metrics
    return metrics(task, examples, predictions)


def _start_at_the_mean(head: Head, examples: Sequence[TextExample]) -> None:
    """Initialize the head's bias with the mean of the training numbers, so that no step is spent on
    it.
    """
    numbers = [cast(float, example.label) for example in examples]
    nn.init.constant_(head.get_parameter("classifier.bias"), fmean(numbers))


def text_shown(example: TextExample) -> tuple[str | None, str | None]:
    """Return the texts of an example, for a list of errors."""
    return example.text, example.text2 or None


CLASSIFICATION = TaskKind[TextExample, TextInstance, TextPrediction](
    name="classification",
    reader=CLASSES,
    fields=(("text", "label"), ("text", "text2", "label")),
    inputs=("text", "text2"),
    needs_labels=True,
    parse_input=parse_text_input,
    expected_input="a text, or two texts",
    row=text_row,
    make=make_text_instances,
    collate=collate_texts,
    head=Classifier,
    linear=True,
    graph=ScoreGraph(),
    decode=decode_classes,
    parse_prediction=_parse_class,
    metric_names=_metric_names,
    metrics=_class_metrics,
    gold=lambda example: example.label,
    shown=text_shown,
    baselines=text_baselines,
)
REGRESSION = TaskKind[TextExample, TextInstance, NumberPrediction](
    name="regression",
    reader=NUMBERS,
    fields=(("text", "label"), ("text", "text2", "label")),
    inputs=("text", "text2"),
    parse_input=parse_text_input,
    expected_input="a text, or two texts",
    row=text_row,
    make=make_text_instances,
    collate=collate_texts,
    head=Classifier,
    linear=True,
    graph=ScoreGraph(one_number=True),
    start=_start_at_the_mean,
    decode=decode_numbers,
    parse_prediction=_parse_number,
    # the third is the mean of the first two
    metric_names=lambda task: (
        *("pearson", "spearman", "pearson_spearman"),
        *("mean_absolute_error", "mean_squared_error"),
    ),
    metrics=regression_metrics,
    gold=lambda example: example.label,
    shown=text_shown,
    correlates=True,
    baselines=number_baselines,
)
