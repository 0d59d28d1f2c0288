"""Predicting words from their context: the output weights of word2vec and fastText.

Mikolov, Sutskever, Chen, Corrado, Dean 2013, "Distributed Representations of Words and Phrases and
their Compositionality", sections 2.1 and 2.2. With h the context's vector, w the predicted word:

    negative sampling:     -log s(o_w . h) - sum_(k sampled words v) log s(-o_v . h)
    hierarchical softmax:  -sum_(nodes n on w's path) log s(d_n o_n . h),  d_n = +-1 its branch

`recipes/word_vectors/kernels.py` computes and trains it word by word; here its weights are kept.

Letters: H width of a vector, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bertwright.config.runs.word_vectors import Word2VecConfig
from bertwright.objectives.objective import Objective


class ContextWords(Objective[Any]):
    """Output vectors, one a word, or one an inner node of the Huffman tree; zero at first."""

    title = "context words"

    def __init__(self, config: Word2VecConfig) -> None:
        super().__init__()
        rows = config.vocab_size - (config.loss == "hierarchical-softmax")
        self.output = nn.Parameter(torch.zeros(rows, config.hidden_size))
