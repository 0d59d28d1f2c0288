"""Masked language model (Devlin et al. 2019, section 3.1, task 1).

A masked position's vector goes through a dense layer, GELU and a norm, and meets the vocabulary
through the token embeddings themselves (tied) plus a bias. Only masked positions meet it.

Letters: N tokens, K masked tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert.config import BertConfig
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.output import vocabulary_loss


class MaskedBatch(Protocol):
    """The labels masked LM reads."""

    masked_positions: Tensor
    masked_labels: Tensor


class MaskedLM(Objective[MaskedBatch]):
    """Predict the tokens that were masked."""

    title = "masked LM"

    def __init__(self, config: BertConfig, token_embeddings: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(token_embeddings.weight.new_zeros(config.vocab_size))
        self.approximate = "tanh" if config.hidden_act == "gelu_tanh" else "none"
        # In a tuple, so that the tied weight stays the encoder's parameter alone.
        self._tied = (token_embeddings,)

    def transformed(self, x: Tensor) -> Tensor:
        """x `[K, H]` -> `[K, H]`, ready to meet the vocabulary."""
        normed: Tensor = self.norm(F.gelu(self.transform(x), approximate=self.approximate))
        return normed

    def logits(self, x: Tensor) -> Tensor:
        """x `[K, H]` -> `[K, V]`"""
        weight = self._tied[0].weight
        return F.linear(self.transformed(x), weight, self.bias)

    def count(self, batch: MaskedBatch) -> int:
        """K, the masked tokens."""
        return len(batch.masked_labels)

    def positions(self, batch: MaskedBatch) -> Tensor:
        """The masked positions."""
        return batch.masked_positions

    def flops(self, batch: MaskedBatch) -> float:
        """The dense layer and the vocabulary, at the masked positions."""
        hidden, vocabulary = self._tied[0].embedding_dim, self._tied[0].num_embeddings
        return 6.0 * len(batch.masked_labels) * (hidden**2 + hidden * vocabulary)

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Cross-entropy summed over the masked positions of a batch."""
        x = self.transformed(encoded.at(batch.masked_positions))  # [K, H]
        loss = vocabulary_loss(x, self._tied[0].weight, self.bias, batch.masked_labels)
        return Loss(loss.total, len(batch.masked_labels), loss.correct)
