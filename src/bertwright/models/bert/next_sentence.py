"""Next-sentence prediction over the pooled [CLS] (Devlin et al. 2019, section 3.1, task 2).

Class 0 means that B follows A in its document; class 1 that B comes from elsewhere. The same head
is trained for sentence-order prediction (Lan et al. 2020), where class 1 means that A and B were
swapped.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective


class NextSentence(Objective[MaskedBatch]):
    """The objective that predicts whether B follows A."""

    title = "next sentence"
    reads_pooled = True

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(hidden_size, 2)

    def logits(self, pooled: Tensor) -> Tensor:
        """Return the logits of the two classes: pooled `[B, H]` -> `[B, 2]`."""
        logits: Tensor = self.classifier(pooled)
        return logits

    def count(self, batch: MaskedBatch) -> int:
        """Return B, the number of sequences."""
        return batch.inputs.sequences.count

    def positions(self, batch: MaskedBatch) -> Tensor:
        """Return an empty tensor, because the objective reads only the pooled vector."""
        return torch.empty(0, dtype=torch.long, device=batch.inputs.ids.device)

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Return the cross-entropy summed over the pairs of a batch."""
        assert encoded.pooled is not None
        assert batch.next_sentence_labels is not None
        logits = self.logits(encoded.pooled).float()  # [B, 2]
        labels = batch.next_sentence_labels
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, len(labels), (logits.argmax(1) == labels).sum())
