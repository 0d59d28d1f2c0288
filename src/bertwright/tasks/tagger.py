"""A tag for each word (Devlin et al. 2019, section 5.3): entities, parts of speech.

A word is classified by the vector of its first wordpiece, through dropout and a linear layer, as
`BertForTokenClassification` of transformers; other wordpieces have no label. An LSTM over the words
of an example may come between, or TagLM's two (`tasks/head_parts.py`), and over the scores a CRF
(`nn/crf.py`), which scores the tags of an example together (Lample et al. 2016). The loss is a sum
over words: the cross-entropy of each, times its class's weight; or with a CRF minus the
log-probability of the whole sequences, over the same number of words.

Letters: N tokens, W words, E examples, C tags, H hidden.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.nn.crf import Crf
from bertwright.nn.dropout import Dropout
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.head_parts import Scorer, TagLm, make_parts


class Tagger(Head):
    """Which tag does each word have?"""

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head.

        Args:
            spec: of the encoder.
            task: of kind `tagging`.

        Raises:
            ConfigError: layers the encoder does not have.
        """
        super().__init__()
        self.mix, self.network, width, self.layers = make_parts(task.head, spec.widths)
        self.dropout = Dropout(task.head.dropout)
        self.classifier = Scorer(width, task.num_scores)
        self.crf = Crf(task.num_scores) if task.head.crf else None
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", None, persistent=False)
        """`[C]`, of mean 1 over the training words; unset: all are 1. A CRF takes none."""

    def count(self, batch: LabelledBatch) -> int:
        """W, the words."""
        assert batch.words is not None
        return len(batch.words)

    def positions(self, batch: LabelledBatch) -> Tensor | None:
        """The words' first wordpieces."""
        return batch.words

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """`[W, C]` float32; with a CRF, what goes into it."""
        x = self.features(encoded, batch.words)  # [W, F]
        if isinstance(self.network, TagLm):
            assert batch.words is not None
            layer_0 = encoded.layers[0].index_select(0, batch.words)
            x = self.network(batch.texts, layer_0.float(), x.float(), batch.counts)
        elif self.network is not None:
            x = self.network(x, batch.counts)
        scores: Tensor = self.classifier(self.dropout(x))
        return scores

    def decode(self, scores: Tensor, batch: LabelledBatch) -> Tensor:
        """The tag of each word, `[W]` int64: of the largest score, or on the best path."""
        if self.crf is None:
            return scores.argmax(1)
        return self.crf.decode(scores, batch.counts)

    def probabilities(self, scores: Tensor, batch: LabelledBatch) -> Tensor:
        """The probability of each tag for each word, `[W, C]` float32, no gradient."""
        if self.crf is None:
            return scores.detach().float().softmax(1)
        return self.crf.probabilities(scores, batch.counts)

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Loss summed over the words of a batch."""
        labels = batch.labels
        assert labels is not None
        scores = self.scores(encoded, batch)
        if self.crf is None:
            total = F.cross_entropy(scores, labels, self.class_weights, reduction="sum")
        else:
            total = -self.crf.log_likelihood(scores, labels, batch.counts).sum()
        correct = (self.decode(scores.detach(), batch) == labels).sum()
        return Loss(total, len(labels), correct)
