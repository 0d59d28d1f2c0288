"""The transform before the scores of a head: a dense layer, an activation and a norm.

The masked-LM head of BERT (Devlin et al. 2019) and every head of ModernBERT have it.

Letters: K rows, H hidden.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertwright.nn.encoder import Transform
from bertwright.nn.transformer.layers import ACTIVATIONS


class DenseNorm(nn.Module):
    """A dense layer, an activation and a norm."""

    def __init__(self, sizes: Transform) -> None:
        super().__init__()
        output = sizes.output or sizes.width
        self.dense = nn.Linear(sizes.width, output, sizes.bias)
        self.norm = nn.LayerNorm(output, eps=sizes.eps, bias=sizes.bias)
        self.activation = ACTIVATIONS[sizes.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the transform: x `[K, H]` -> `[K, H]`, or `[K, sizes.output]` if that is set."""
        normed: Tensor = self.norm(self.activation(self.dense(x)))
        return normed
