"""Which of several texts is right (SWAG; Devlin et al. 2019, section 4.4).

Each choice is read with its question by itself and gets one score, through the pooler over [CLS],
dropout and a linear layer, as `BertForMultipleChoice` of transformers; or over other layers
(`HeadConfig`). A choice in several windows has the mean, or the largest, of their scores. The loss
is a cross-entropy over an example's choices, of which each example may have another number.

Letters: B windows, E examples, M choices in all, H hidden.
"""

from __future__ import annotations

from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.host import send_numbers
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import log_softmax, merge, owners_of
from bertwright.tasks.head import LabelledBatch, TextHead


class MultipleChoice(TextHead):
    """Which choice is right?"""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head.

        Args:
            spec: of the encoder.
            task: of kind `multiple-choice`.

        Raises:
            ConfigError: layers the encoder does not have.
        """
        super().__init__(spec, task, 1)

    def count(self, batch: LabelledBatch) -> int:
        """E, the examples."""
        return len(batch.counts)

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """One a choice, `[M]` float32, choices of all examples counted through."""
        scores = self.classifier(self.dropout(self.vectors(encoded)))  # [B, 1]
        if batch.owners is not None:
            scores = merge(scores, batch.owners, sum(batch.counts), self.task.merge)
        one: Tensor = scores[:, 0]
        return one

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Loss summed over the examples of a batch."""
        assert batch.labels is not None
        scores = self.scores(encoded, batch)[:, None]  # [M, 1]
        count = len(batch.counts)
        owners = owners_of(batch.counts, scores.device)
        sizes = send_numbers(batch.counts, scores.device)
        gold = sizes.cumsum(0) - sizes + batch.labels  # [E]: the right one among M
        logs = log_softmax(scores, owners, count)[gold]
        best = merge(scores.detach(), owners, count, "max")
        return Loss(-logs.sum(), count, (scores.detach()[gold] >= best).sum())
