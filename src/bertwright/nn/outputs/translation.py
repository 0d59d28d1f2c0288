"""Translation: predict each target token from those before it and from the encoded source.

`loss = -sum_i log softmax(W x_i + b)[y_i]`. The decoder computes x_i from `y_<i` and the source; W
is the token embeddings (Press and Wolf 2017). Training smooths the target distribution (Szegedy et
al. 2016; Vaswani et al. 2017, section 5.4); evaluation does not. The decoder is a part of the
objective, because other tasks use the encoder without it.

Letters: B pairs, N source tokens, M target tokens in all, R rows, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertwright.nn.batch import Batch
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.sequences import Inputs


class Decoder(Protocol):
    """The interface of a system's decoder, a module with its own parameters."""

    def __call__(self, memory: Encoded, target: Inputs) -> Tensor:
        """Read B encoded sources and B targets of M tokens in all. Return the vectors of the target
        tokens, `[M, H]`."""

    def begin(self, memory: Encoded) -> Any:
        """Return the state before the first token, with one row per source; see
        `decoding/search.py`."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read the next token `[R]` of each row. Return its vector `[R, H]` and the new state."""

    def attention_maps(self, memory: Encoded, target: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """Return the attention probabilities of one pair, layer by layer.

        The first list holds those of the M target tokens to the tokens up to themselves,
        `[A, M, M]`, the second those to the N tokens of the source, `[A, M, N]`. A list is empty
        where the decoder has no such attention.
        """

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize all parameters as published, in place."""


@dataclass(frozen=True)
class TranslationBatch(Batch):
    """B pairs in order of falling source length and, for equal sources, of falling target length.

    `inputs` are the sources.
    """

    target: Inputs
    """The M tokens that the decoder reads: for each pair the begin token, then the target."""
    labels: Tensor
    """`[M]`: the token to predict at each of them: for each pair the target, then the end
    token."""

    @property
    def num_tokens(self) -> int:
        """N + M, the number of tokens of all sources and targets."""
        return self.inputs.sequences.total + self.target.sequences.total


class Translation(VocabularyOutput, Objective[TranslationBatch]):
    """A decoder and the output layer over the vocabulary, trained by cross-entropy."""

    title = "translation"
    bias: nn.Parameter

    def __init__(
        self, decoder: Decoder, token_embeddings: nn.Embedding, label_smoothing: float
    ) -> None:
        super().__init__(token_embeddings.num_embeddings, token_embeddings)
        self.decoder = decoder
        self.label_smoothing = label_smoothing

    def count(self, batch: TranslationBatch) -> int:
        """Return M, the number of predicted tokens of a batch."""
        return len(batch.labels)

    def forward(self, encoded: Encoded, batch: TranslationBatch) -> Loss:
        """Return the cross-entropy summed over the M target tokens, end tokens included."""
        x = self.decoder(encoded, batch.target)  # [M, H]
        smoothing = self.label_smoothing if self.training else 0.0
        return self.cross_entropy(x, batch.labels, smoothing)

    def flops(self, batch: TranslationBatch) -> float:
        """Return the operations of the decoder and of W: two per target token for each weight of
        their matrices, and twice as many for the backward pass."""
        matrices = [each for each in {*self.parameters(), self.weight} if each.dim() == 2]
        return 6.0 * len(batch.labels) * sum(each.numel() for each in matrices)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the decoder as published and the bias to 0."""
        self.decoder.reset_parameters(generator)
        nn.init.zeros_(self.bias)
