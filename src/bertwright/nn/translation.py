"""Translation: each target token from those before it and from the encoded source.

`loss = -sum_i log softmax(W x_i + b)[y_i]`, x_i from the decoder over `y_<i` and the source, W the
token embeddings (Press and Wolf 2017). In training the target distribution is smoothed (Szegedy et
al. 2016; Vaswani et al. 2017, section 5.4); what is evaluated is not. The decoder is the
objective's: the encoder is what is kept.

Letters: B pairs, N source tokens, M target tokens in all, R rows, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import HasInputs, Loss, Objective
from bertwright.nn.output import vocabulary_loss
from bertwright.nn.products import product
from bertwright.nn.sequences import Inputs


class Decoder(Protocol):
    """What a system's decoder does; a module with parameters of its own."""

    def __call__(self, memory: Encoded, target: Inputs) -> Tensor:
        """B sources, and what it reads of B targets, M tokens -> `[M, H]`"""

    def begin(self, memory: Encoded) -> Any:
        """The state before the first token, one row a source; see `decoding/search.py`."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The next token of each row, `[R]` -> `[R, H]`, and the state after it."""

    def attention_maps(self, memory: Encoded, target: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """Of one pair, layer by layer: how much each of M target tokens attends to those before it,
        `[A, M, M]`, and to the source's N, `[A, M, N]`; none of a decoder that does not."""

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize it as published, in place."""


class TranslationBatch(HasInputs, Protocol):
    """A `data.parallel.pairs.PairBatch`."""

    target: Inputs
    labels: Tensor


class Translation(Objective[TranslationBatch]):
    """A decoder, and the vocabulary above it."""

    title = "translation"

    def __init__(
        self, decoder: Decoder, token_embeddings: nn.Embedding, label_smoothing: float
    ) -> None:
        super().__init__()
        self.decoder = decoder
        self.bias = nn.Parameter(torch.zeros(token_embeddings.num_embeddings))
        self.label_smoothing = label_smoothing
        self._tied = (token_embeddings,)  # in a tuple: the encoder owns it

    @property
    def weight(self) -> Tensor:
        """`[V, H]`"""
        return self._tied[0].weight

    def count(self, batch: TranslationBatch) -> int:
        """M."""
        return len(batch.labels)

    def forward(self, encoded: Encoded, batch: TranslationBatch) -> Loss:
        """Cross-entropy summed over the M target tokens, ends included."""
        x = self.decoder(encoded, batch.target)  # [M, H]
        smoothing = self.label_smoothing if self.training else 0.0
        loss = vocabulary_loss(x, self.weight, self.bias, batch.labels, smoothing)
        return Loss(loss.total, len(batch.labels), loss.correct)

    def logits(self, x: Tensor) -> Tensor:
        """x `[R, H]` -> `[R, V]` float32"""
        return product(x, self.weight, self.bias).float()

    def flops(self, batch: TranslationBatch) -> float:
        """Each weight of a matrix of the decoder, and of W, is one a target token."""
        matrices = [each for each in {*self.parameters(), self.weight} if each.dim() == 2]
        return 6.0 * len(batch.labels) * sum(each.numel() for each in matrices)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the decoder as published, the bias 0."""
        self.decoder.reset_parameters(generator)
        nn.init.zeros_(self.bias)
