"""Language modelling: predict each token from those before it.

`loss = -sum_i log softmax(W x_i + b)[token_(i+1)]`. W is the token embeddings where they are tied
(Press and Wolf 2017), otherwise a matrix of its own.

Recurrent models may be trained with the penalties of Merity et al. 2018 (section 4.5) on the last
layer's output after dropout: `AR mean(x_i^2) + TAR mean((x_i - x_(i-1))^2)`, means over H, summed
over predictions like the loss. The penalties change only the gradients, not the logged loss. One
thing differs from the paper: TAR also reads the output after dropout, whose mask is the same at i
and i - 1.

Letters: K predicted tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.output import BLOCK
from bertwright.nn.outputs.vocabulary import VocabularyOutput


class NextTokenLabels(Protocol):
    """A batch whose next tokens are predicted: windows of documents, or labelled texts."""

    @property
    def tokens(self) -> Tensor:
        """`[N]`, the ids of all tokens."""

    @property
    def positions(self) -> Tensor:
        """`[K]`, the positions in N whose next token is predicted."""


class NextToken(VocabularyOutput, Objective[NextTokenLabels]):
    """Next-token prediction by cross-entropy over the vocabulary, for a `TokenStreamBatch` or for
    labelled texts (the auxiliary objective of GPT's fine-tuning)."""

    title = "next token"

    def __init__(
        self,
        width: int,
        vocab_size: int,
        tied: nn.Embedding | None = None,
        penalties: tuple[float, float] = (0.0, 0.0),
        bias: bool = True,
    ) -> None:
        """Build the output layer.

        Args:
            width: H.
            vocab_size: V.
            tied: embeddings `[V, H]` used as W; None: W is a parameter of this objective.
            penalties: the factors AR and TAR.
            bias: whether there is a b.
        """
        super().__init__(vocab_size, tied, bias=bias)
        # An embedding rather than a linear layer: its rows are tokens, so Muon leaves it to AdamW.
        self.own = nn.Embedding(vocab_size, width) if tied is None else None
        self.reads_embeddings = tied is not None
        self.penalties = penalties

    @property
    def weight(self) -> Tensor:
        return super().weight if self.own is None else self.own.weight

    def count(self, batch: NextTokenLabels) -> int:
        """Return K, the number of predicted tokens of a batch."""
        return len(batch.positions)

    def positions(self, batch: NextTokenLabels) -> Tensor:
        """Return the positions whose next token is predicted."""
        return batch.positions

    def forward(self, encoded: Encoded, batch: NextTokenLabels) -> Loss:
        """Return the cross-entropy summed over the K predicted tokens."""
        at = batch.positions
        loss = self.cross_entropy(encoded.at(at), batch.tokens[at + 1])
        if self.training and any(self.penalties):
            penalty = self._penalty(encoded, at)
            loss = replace(loss, total=loss.total + (penalty - penalty.detach()))
        return loss

    def _penalty(self, encoded: Encoded, at: Tensor) -> Tensor:
        """Return the sum of AR and TAR over the positions `at` `[K]`; TAR of the first token of a
        sequence is 0."""
        activation, temporal = self.penalties
        x = encoded.last
        current, before = x.index_select(0, at), x.index_select(0, (at - 1).clamp(min=0))
        first = encoded.sequences.positions.index_select(0, at) == 0
        change = (current - before).masked_fill(first[:, None], 0.0)
        sums = activation * current.float().square().sum()
        sums = sums + temporal * change.float().square().sum()
        return sums / x.shape[1]

    def log_probabilities(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Return the log-probability of each token `[K]` given the vector that predicts it.

        x `[K, H]` -> `[K]`, in nats.
        """
        rows = max(1, BLOCK // self.weight.shape[0])
        blocks = [
            self.logits(part).log_softmax(-1).gather(1, of[:, None])[:, 0]
            for part, of in zip(torch.split(x, rows), torch.split(tokens, rows), strict=True)
        ]
        return torch.cat(blocks) if blocks else x.new_zeros(0)

    def flops(self, batch: NextTokenLabels) -> float:
        """Return the operations of the product with W in the forward and the backward pass."""
        return self.output_flops(len(batch.positions))


def next_token(
    config: Any,
    encoder: Encoder,
    *,
    tied: bool = True,
    bias: bool = True,
    penalties: tuple[float, float] = (0.0, 0.0),
) -> NextToken:
    """Return a `NextToken` objective for an encoder, whose last layer must be as wide as the token
    embeddings if it is `tied` to them."""
    table = encoder.token_embedding() if tied else None
    return NextToken(encoder.spec.width, encoder.spec.vocab_size, table, penalties, bias)
