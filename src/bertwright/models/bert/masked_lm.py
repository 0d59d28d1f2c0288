"""Masked language modelling (Devlin et al. 2019, section 3.1, task 1).

A dense layer, GELU and a norm transform the vector of each masked position; the token embeddings
themselves (tied weights) and a bias turn it into logits. Only masked positions are computed.

Letters: N tokens, K masked tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.vocabulary import VocabularyOutput


class MaskedLM(VocabularyOutput, Objective[MaskedBatch]):
    """The objective that predicts the tokens that were masked."""

    title = "masked LM"
    bias: nn.Parameter

    def __init__(self, config: BertConfig, encoder: Encoder) -> None:
        """Build the head, whose output layer is tied to the token embeddings."""
        transform = encoder.spec.before_tokens
        super().__init__(config.vocab_size, encoder.token_embedding(), transform=transform)

    def count(self, batch: MaskedBatch) -> int:
        """Return K, the number of masked tokens of a batch."""
        return len(batch.masked_labels)

    def positions(self, batch: MaskedBatch) -> Tensor:
        """Return the masked positions."""
        return batch.masked_positions

    def flops(self, batch: MaskedBatch) -> float:
        """Return the operations of the dense layer and the output layer at the masked positions."""
        return self.output_flops(self.count(batch))

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Return the cross-entropy summed over the masked positions of a batch."""
        return self.cross_entropy(encoded.at(batch.masked_positions), batch.masked_labels)
