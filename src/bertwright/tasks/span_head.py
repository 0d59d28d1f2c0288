"""Where an answer starts and ends in a passage (Devlin et al. 2019, sections 4.2 and 4.3).

Two scores a token, start and end, through one linear layer without dropout, as
`BertForQuestionAnswering` of transformers; each is a softmax over the tokens of its window, and the
loss of a window is the mean of the two cross-entropies. No answer is the span of [CLS]. Where we
differ: in transformers padding takes part of the probability; here there is none.

Letters: B windows, N tokens in all, H hidden.
"""

from __future__ import annotations

from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.ragged import log_softmax, merge
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.head_parts import Scorer, make_parts


class Span(Head):
    """Which tokens are the answer?"""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head; its `dropout` is not used.

        Args:
            spec: of the encoder.
            task: of kind `span`.

        Raises:
            ConfigError: layers the encoder does not have.
        """
        super().__init__()
        self.mix, self.network, width, self.layers = make_parts(task.head, spec.widths)
        self.qa_outputs = Scorer(width, 2)

    def count(self, batch: LabelledBatch) -> int:
        """B, the windows."""
        return batch.inputs.sequences.count

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """Start and end of each token, `[N, 2]` float32."""
        x = self.features(encoded)
        if self.network is not None:
            x = self.network(x, batch.inputs.sequences.lengths)
        scores: Tensor = self.qa_outputs(x)
        return scores

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Loss summed over the windows of a batch; right are those with both ends right."""
        assert batch.labels is not None
        windows = batch.inputs.sequences
        scores = self.scores(encoded, batch)
        gold = windows.first[:, None] + batch.labels  # [B, 2]: positions in N
        logs = log_softmax(scores, windows.index, windows.count).gather(0, gold)  # [B, 2]
        best = merge(scores.detach(), windows.index, windows.count, "max")
        correct = (scores.detach().gather(0, gold) >= best).all(1).sum()
        return Loss(-logs.mean(1).sum(), windows.count, correct)
