"""Classes, labels or a number for a text or a pair of texts (Devlin et al. 2019, section 4.1).

Through the pooler over [CLS], dropout and a linear layer, as `BertForSequenceClassification` of
transformers; or over other layers, pooled or read by an LSTM (`HeadConfig`). A text in several
windows has the mean, or the largest, of their scores: they are merged before the loss, so that the
loss is of examples.

| task | loss of an example | right if |
|---|---|---|
| classes | -w_y log softmax(s)[y] | the largest score is y's |
| any number of labels | mean over C of w_c (-log sigmoid of s_c, or of -s_c) | all agree |
| a number | (s - y)^2 | - |

Class weights: the loss is the weighted sum over the number of examples. PyTorch divides by the sum
of the weights instead, which differs from batch to batch; the two agree over a training set if the
weights have mean 1 over it, which is the caller's part.

Letters: B windows, E examples, C scores, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import merge
from bertwright.tasks.head import LabelledBatch, TextHead

_LossOf = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
"""Of scores, labels and class weights: the summed loss, and how many were right."""


class Classifier(TextHead):
    """What is this text? Classes, labels, or a number."""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head.

        Args:
            spec: of the encoder.
            task: of kind `classification` or `regression`.

        Raises:
            ConfigError: layers the encoder does not have.
        """
        super().__init__(spec, task, task.num_scores)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", None, persistent=False)
        """`[C]`, of mean 1 over the training examples; unset: all are 1."""
        self._loss_of: _LossOf = _squared_error if task.kind == "regression" else _one_class
        if task.multi_label:
            self._loss_of = _any_labels

    def count(self, batch: LabelledBatch) -> int:
        """E, the examples."""
        return len(batch.rows)

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """`[E, C]` float32 logits; regression: `[E]`."""
        scores: Tensor = self.classifier(self.dropout(self.vectors(encoded)))  # [B, C]
        if batch.owners is not None:
            scores = merge(scores, batch.owners, len(batch.rows), self.task.merge)
        return scores[:, 0] if self.task.kind == "regression" else scores  # [E, C]

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Loss summed over the examples of a batch."""
        assert batch.labels is not None
        scores = self.scores(encoded, batch)
        total, correct = self._loss_of(scores, batch.labels, self.class_weights)
        return Loss(total, len(batch.rows), correct)


def _one_class(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """scores `[E, C]`, labels `[E]` -> summed loss, examples that are right"""
    total = F.cross_entropy(scores, labels, weights, reduction="sum")
    return total, (scores.argmax(1) == labels).sum()


def _any_labels(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """scores `[E, C]`, labels `[E, C]` -> summed loss, examples whose labels are all right"""
    labels = labels.to(scores.dtype)
    losses = F.binary_cross_entropy_with_logits(scores, labels, weights, reduction="none")
    return losses.mean(1).sum(), ((scores > 0) == (labels > 0.5)).all(1).sum()


def _squared_error(scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, None]:
    """scores `[E]`, labels `[E]` -> summed loss; a number is not right or wrong"""
    return F.mse_loss(scores, labels.to(scores.dtype), reduction="sum"), None
