"""The objective of ELMo: predict each token from those before it, and from those after it.

`loss = -sum_i log p(token_(i+1) | left half of x_i) + log p(token_i | right half of x_(i+1))`, with
one output matrix for both directions (Peters et al. 2018, section 3.1). In training the softmax is
sampled (Jean et al. 2015), unless there are fewer tokens than samples; evaluation is over the whole
vocabulary.

Letters: K pairs of neighbouring tokens, P width of a direction, V tokens that are predicted, S
samples.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.data.token_streams import TokenStreamBatch
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.output import log_uniform, sampled_loss, vocabulary_loss


class BothDirections(Objective[TokenStreamBatch]):
    """The objective that predicts the next and the previous token of a `TokenStreamBatch` from the
    halves of the top layer.
    """

    title = "next and previous token"

    def __init__(self, width: int, vocab_size: int, both: bool, samples: int) -> None:
        """Create the output layer.

        Args:
            width: P.
            vocab_size: V; tokens beyond it count as the last one.
            both: whether the model also reads from right to left.
            samples: S; 0, or V and more: no sampling, but the whole vocabulary.
        """
        super().__init__()
        # A linear layer, so that Muon steps it: with AdamW `elmo-mini` predicts fewer held-out
        # tokens after the same minutes (10.1 %, not 12.3; `docs/systems/elmo.md`). Each row of
        # Muon's step is the row of the momentum times one [P, P] matrix, so a token that was not
        # drawn does not move either.
        self.output = nn.Linear(width, vocab_size)
        self.samples = samples if samples < vocab_size else 0
        self.directions = 2 if both else 1

    def count(self, batch: TokenStreamBatch) -> int:
        """Return the number of predictions in a batch: K for each direction."""
        return self.directions * len(batch.positions)

    def forward(self, encoded: Encoded, batch: TokenStreamBatch) -> Loss:
        """Return the loss summed over both directions."""
        at = batch.positions
        tokens = batch.tokens.clamp(max=self.output.out_features - 1)
        width = self.output.in_features
        x, labels = [encoded.last[at, :width]], [tokens[at + 1]]
        if self.directions == 2:
            x, labels = [*x, encoded.last[at + 1, width:]], [*labels, tokens[at]]
        rows, gold = torch.cat(x), torch.cat(labels)
        weight, bias = self.output.weight, self.output.bias
        if self.training and self.samples:
            total, _ = sampled_loss(rows, weight, bias, gold, *self._draw(gold.device))
            # most probable of a sample is far easier than of the whole vocabulary
            return Loss(total, len(gold), None)
        loss = vocabulary_loss(rows, weight, bias, gold)
        return Loss(loss.total, len(gold), loss.correct)

    def _draw(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Draw samples as `log_uniform` does, and the last token in addition.

        It may stand for many tokens. If it were drawn as the rarest one, it would hardly ever be
        the wrong answer, and its score would grow above all others.
        """
        last = self.output.out_features - 1
        drawn, expected = log_uniform(last, self.samples, device)
        return F.pad(drawn, (0, 1), value=last), F.pad(expected, (0, 1))

    def flops(self, batch: TokenStreamBatch) -> float:
        """Return the FLOPs of the product with the output matrix: one forward and two backward."""
        outputs = self.samples or self.output.out_features
        return 6.0 * self.count(batch) * self.output.in_features * outputs
