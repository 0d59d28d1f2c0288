"""GloVe: logarithms of co-occurrence counts by products of two vectors.

Pennington, Socher, Manning 2014, "GloVe: Global Vectors for Word Representation", equation 8:

    J = sum_ij f(X_ij) (w_i . c_j + a_i + b_j - log X_ij)^2 / 2,   f(x) = min(1, (x / x_max)^0.75)

A word's vector is w_i + c_i (section 4.2). `recipes/word_vectors/kernels.py` trains by AdaGrad;
here its parameters and their summed squared gradients are kept.

Letters: V vocabulary, H width of a vector.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.runs.word_vectors import GloveConfig
from bertwright.objectives.objective import Objective


class Cooccurrences(Objective[Any]):
    """Vectors and biases of words and of contexts: row 0 and 1 of each tensor."""

    title = "co-occurrences"

    def __init__(self, config: GloveConfig) -> None:
        super().__init__()
        words, width = config.vocab_size, config.hidden_size
        self.vectors = nn.Parameter(torch.zeros(2, words, width))
        self.biases = nn.Parameter(torch.zeros(2, words))
        self.vector_squares = nn.Parameter(torch.ones(2, words, width), requires_grad=False)
        self.bias_squares = nn.Parameter(torch.ones(2, words), requires_grad=False)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Vectors uniform in +-1/2H."""
        half = 0.5 / self.vectors.shape[2]
        nn.init.uniform_(self.vectors, -half, half, generator=generator)

    def tables(self) -> list[Tensor]:
        """All four, in order."""
        named = (self.vectors, self.biases, self.vector_squares, self.bias_squares)
        return [each.data for each in named]
