"""The weights that word2vec, fastText and GloVe train in addition to the vectors of words.

`models/word_vectors/kernels.py` computes the losses and trains word by word.

Mikolov, Sutskever, Chen, Corrado, Dean 2013, "Distributed Representations of Words and Phrases and
their Compositionality", sections 2.1 and 2.2. With h the context's vector and w the predicted word:

    negative sampling:     -log s(o_w . h) - sum_(k sampled words v) log s(-o_v . h)
    hierarchical softmax:  -sum_(nodes n on w's path) log s(d_n o_n . h),  d_n = +-1 its branch

Pennington, Socher, Manning 2014, "GloVe: Global Vectors for Word Representation", equation 8; a
word's vector is w_i + c_i (section 4.2):

    J = sum_ij f(X_ij) (w_i . c_j + a_i + b_j - log X_ij)^2 / 2,   f(x) = min(1, (x / x_max)^0.75)

Letters: H width of a vector, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import nn

from bertwright.models.word_vectors.config import GloveConfig, Word2VecConfig
from bertwright.nn.batch import Batch
from bertwright.nn.objective import Objective


class ContextWords(Objective[Batch]):
    """The output vectors, one per word or one per inner node of the Huffman tree. They are
    initialized to zero.
    """

    title = "context words"

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__()
        rows = config.vocab_size - (config.loss == "hierarchical-softmax")
        self.output = nn.Parameter(torch.zeros(rows, config.hidden_size))


class Cooccurrences(Objective[Batch]):
    """GloVe's vectors and biases of words (row 0 of each tensor) and of contexts (row 1), and the
    summed squares of their gradients for AdaGrad.
    """

    title = "co-occurrences"

    def __init__(self, config: GloveConfig) -> None:
        super().__init__()
        words, width = config.vocab_size, config.hidden_size
        self.vectors = nn.Parameter(torch.zeros(2, words, width))
        self.biases = nn.Parameter(torch.zeros(2, words))
        self.vector_squares = nn.Parameter(torch.ones(2, words, width), requires_grad=False)
        self.bias_squares = nn.Parameter(torch.ones(2, words), requires_grad=False)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw vectors uniformly within +-1/2H."""
        half = 0.5 / self.vectors.shape[2]
        nn.init.uniform_(self.vectors, -half, half, generator=generator)
