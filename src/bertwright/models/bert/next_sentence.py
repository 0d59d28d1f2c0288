"""Next-sentence prediction (Devlin et al. 2019, section 3.1, task 2), over the pooled [CLS].

Class 0: B follows A in its document. Class 1: B is from elsewhere. The same head learns
sentence order (Lan et al. 2020): then class 1 means that A and B were swapped.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective


class PairBatch(Protocol):
    """The labels next-sentence prediction reads."""

    next_sentence_labels: Tensor


class NextSentence(Objective[PairBatch]):
    """Does B follow A?"""

    title = "next sentence"
    reads_pooled = True

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(hidden_size, 2)

    def logits(self, pooled: Tensor) -> Tensor:
        """pooled `[B, H]` -> `[B, 2]`"""
        logits: Tensor = self.classifier(pooled)
        return logits

    def count(self, batch: PairBatch) -> int:
        """B, the sequences."""
        return len(batch.next_sentence_labels)

    def positions(self, batch: PairBatch) -> Tensor:
        """None: it reads the pooled vector."""
        return batch.next_sentence_labels.new_empty(0, dtype=torch.long)

    def forward(self, encoded: Encoded, batch: PairBatch) -> Loss:
        """Cross-entropy summed over the pairs of a batch."""
        assert encoded.pooled is not None
        logits = self.logits(encoded.pooled).float()  # [B, 2]
        labels = batch.next_sentence_labels
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, len(labels), (logits.argmax(1) == labels).sum())
