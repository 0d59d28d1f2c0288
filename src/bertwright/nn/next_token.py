"""Language modelling: each token from those before it.

`loss = -sum_i log softmax(W x_i + b)[token_(i+1)]`, with W the token embeddings where they are tied
(Press and Wolf 2017) or a matrix of its own.

In training, of recurrent models, also the penalties of Merity et al. 2018 (section 4.5) on what the
last layer gives, dropped out: `AR mean(x_i^2) + TAR mean((x_i - x_(i-1))^2)`, means over H, summed
over predictions like the loss. They change gradients; the loss that is logged is without them.
Where we differ: TAR reads the output after dropout too, whose mask is the same at i and i - 1.

Letters: K predicted tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.output import BLOCK, vocabulary_loss
from bertwright.nn.products import product


class NextToken(Objective[Any]):
    """Cross-entropy over the vocabulary at every position of a `TokenStreamBatch`, or of labelled
    texts (the auxiliary objective of GPT's fine-tuning)."""

    title = "next token"

    def __init__(
        self,
        width: int,
        vocab_size: int,
        tied: nn.Embedding | None = None,
        penalties: tuple[float, float] = (0.0, 0.0),
        bias: bool = True,
    ) -> None:
        """H and V; embeddings `[V, H]` that are the output weights too, or None: its own; factors
        of AR and TAR; whether there is a b."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        # rows of tokens, as embeddings are: no matrix from vectors to vectors for Muon
        self.own = nn.Embedding(vocab_size, width) if tied is None else None
        self._tied = (tied,)  # in a tuple: the encoder owns it
        self.reads_embeddings = tied is not None
        self.penalties = penalties

    @property
    def weight(self) -> Tensor:
        """`[V, H]`"""
        table = self.own or self._tied[0]
        assert table is not None
        return table.weight

    def count(self, batch: Any) -> int:
        """K."""
        return len(batch.positions)

    def positions(self, batch: Any) -> Tensor | None:
        """Where it predicts from."""
        found: Tensor = batch.positions
        return found

    def forward(self, encoded: Encoded, batch: Any) -> Loss:
        """Summed over the K predicted tokens."""
        at: Tensor = batch.positions
        x = encoded.at(at).contiguous()  # [K, H]
        bias = self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias
        loss = vocabulary_loss(x, self.weight, bias, batch.tokens[at + 1])
        total = loss.total
        if self.training and any(self.penalties):
            penalty = self._penalty(encoded, at)
            total = total + (penalty - penalty.detach())
        return Loss(total, len(at), loss.correct)

    def _penalty(self, encoded: Encoded, at: Tensor) -> Tensor:
        """AR and TAR, summed over positions `at` `[K]`; a sequence's first token has no change."""
        activation, temporal = self.penalties
        x = encoded.last
        own, before = x.index_select(0, at), x.index_select(0, (at - 1).clamp(min=0))
        first = encoded.sequences.positions.index_select(0, at) == 0
        change = (own - before).masked_fill(first[:, None], 0.0)
        sums = activation * own.float().square().sum() + temporal * change.float().square().sum()
        return sums / x.shape[1]

    def logits(self, x: Tensor) -> Tensor:
        """x `[K, H]` -> `[K, V]` float32, for scoring and generation."""
        return product(x, self.weight, self.bias).float()

    def log_probabilities(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Of each token `[K]` by the vector that predicts it, x `[K, H]`: `[K]`, in nats."""
        rows = max(1, BLOCK // self.weight.shape[0])
        found = [
            self.logits(part).log_softmax(-1).gather(1, of[:, None])[:, 0]
            for part, of in zip(torch.split(x, rows), torch.split(tokens, rows), strict=True)
        ]
        return torch.cat(found) if found else x.new_zeros(0)

    def flops(self, batch: Any) -> float:
        """The product with W, forward and twice backward."""
        return 6.0 * len(batch.positions) * self.weight.numel()


def tied_next_token(config: Any, encoder: Encoder, bias: bool = True) -> NextToken:
    """Through the token embeddings of an encoder as wide as they are."""
    spec, table = encoder.spec, encoder.token_embedding()
    return NextToken(spec.width, spec.vocab_size, table, bias=bias)
