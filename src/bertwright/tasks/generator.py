"""A target that is written from a source by the encoder itself, without a decoder of its own.

The sequence is source and target, framed as a pair. BERT reads the source both ways and the target
from left to right (UniLM; Dong et al. 2019, section 2.1, the sequence-to-sequence mask); a causal
encoder reads both from left to right. From the last token of the source on, each position's vector
predicts the token that follows:

`loss = -sum_i log softmax(W t(x_i) + b)[token_(i+1)]`, W the token embeddings, t the layer of the
masked-LM head (`models/bert/masked_lm.py`), whose weights the head begins with, and of a causal
encoder nothing. In training the target distribution is smoothed, by 0.1 as in UniLM's fine-tuning
(section 3.1).

Where we differ: UniLM masks some tokens of the target and predicts these; here every position
predicts the next token, so that each step trains on all of them and decoding reads each token once.

Letters: N tokens, K predicted tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Loss
from bertwright.nn.output import vocabulary_loss
from bertwright.nn.products import product
from bertwright.tasks.head import Head, LabelledBatch

SMOOTHING = 0.1
"""Fraction of the target distribution that is uniform, in training."""


class Generator(Head):
    """Which token is next in the target?"""

    reads_embeddings = True

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head, to be tied to an encoder; ConfigError where that does not read from left
        to right."""
        super().__init__()
        if not (spec.causal or spec.prefixed):
            raise ConfigError(
                "generation needs a BERT or a causal language model; this one reads both ways"
            )
        self.task, self.mix = task, None
        self.transform = None if spec.causal else nn.Linear(spec.width, spec.width)
        self.norm = nn.Identity() if spec.causal else nn.LayerNorm(spec.width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(spec.vocab_size))
        self._tied: tuple[nn.Embedding, ...] = ()  # a tuple: the encoder owns it

    def tie(self, encoder: Encoder) -> None:
        """Use an encoder's token embeddings as W; ConfigError where they are not as wide as its
        vectors."""
        table = encoder.token_embedding()
        if table is None or table.embedding_dim != encoder.spec.width:
            raise ConfigError(
                "generation needs token embeddings that predict tokens too, as those of a BERT do; "
                "this encoder's are of another width, or it has none"
            )
        self._tied = (table,)

    @property
    def weight(self) -> Tensor:
        """`[V, H]`"""
        return self._tied[0].weight

    def transformed(self, x: Tensor) -> Tensor:
        """x `[K, H]` -> `[K, H]`, ready to meet the vocabulary."""
        found: Tensor = x if self.transform is None else self.norm(F.gelu(self.transform(x)))
        return found

    def logits(self, x: Tensor) -> Tensor:
        """What the encoder gives for K tokens `[K, H]` -> `[K, V]` float32, of the next."""
        return product(self.transformed(x), self.weight, self.bias).float()

    def count(self, batch: LabelledBatch) -> int:
        """K."""
        return len(cast(Tensor, batch.labels))

    def positions(self, batch: LabelledBatch) -> Tensor | None:
        """The last token of each source, and the target's."""
        return batch.words

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Cross-entropy summed over the target tokens of a batch, ends included."""
        words, labels = cast(Tensor, batch.words), cast(Tensor, batch.labels)
        x = self.transformed(encoded.at(words)).contiguous()  # [K, H]
        smoothing = SMOOTHING if self.training else 0.0
        loss = vocabulary_loss(x, self.weight, self.bias, labels, smoothing)
        return Loss(loss.total, len(labels), loss.correct)

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """None: texts are searched for token by token."""
        raise ConfigError("a generation task has no scores of a text: use bertwright predict")

    def flops(self, batch: LabelledBatch) -> float:
        """The dense layer and the vocabulary, at the predicted positions."""
        dense = 0 if self.transform is None else self.transform.weight.numel()
        return 6.0 * self.count(batch) * (dense + self.weight.numel())
