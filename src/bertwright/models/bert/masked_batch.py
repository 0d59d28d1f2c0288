"""The batches of BERT's pre-training: masked sequences with the labels of its objectives.

Letters: B sequences, N tokens in all, K masked tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from bertwright.models.bert.config import MaskingConfig
from bertwright.nn.batch import Batch


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Masked sequences or pairs of sequences, longest first, and their labels."""

    masked_positions: Tensor
    """`[K]`: the masked positions in N, in rising order."""
    masked_labels: Tensor
    """`[K]`: the original ids at these positions."""
    next_sentence_labels: Tensor | None
    """`[B]`: 0 if B follows A, 1 if it is random (or the two are swapped); None without pairs."""
    instances: Tensor
    """`[B]`: the position of each sequence in the epoch."""
    neighbours: Tensor | None = field(default=None, kw_only=True)
    """`[B]`: the number of the pair of neighbours that a sequence belongs to, -1 if it belongs to
    none; None without the contrast of neighbours."""
    masking_probability: float = field(default=MaskingConfig.probability, kw_only=True)
    """The fraction of tokens that the run masks."""

    def restored(self) -> MaskedBatch:
        """Return the batch with the original tokens at the masked positions."""
        ids = self.inputs.ids.index_copy(0, self.masked_positions, self.masked_labels)
        return replace(self, inputs=replace(self.inputs, ids=ids))
