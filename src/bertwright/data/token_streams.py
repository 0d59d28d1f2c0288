"""Documents as token streams for language models, which predict the text itself.

A document is framed (`[CLS] d [SEP]`, or by the tokenizer's own begin and end tokens; if it has
none, the document stays as it is) and read in windows. Neighbouring windows overlap by one token,
so that each token but the first is predicted exactly once, at the token before it. With a burn-in
of b, they overlap by b more tokens, which are read but not predicted, so that a prediction late in
a document has at least b tokens before it. No state is carried between windows.

Letters: B windows, N tokens in all, K predicted tokens, T maximum length of a window, C ids of a
token, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Int64s, ranges
from bertwright.data.batch import inputs_of
from bertwright.data.instances import Shuffled
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.nn.batch import Batch
from bertwright.text.framing import framing_of


@dataclass(frozen=True)
class TokenStreamBatch(Batch):
    """B windows, longest first, and the positions at which the next token is predicted."""

    tokens: Tensor
    """`[N]`: the ids of the tokens, which are the labels."""
    positions: Tensor
    """`[K]`: the index i in N of each pair of tokens (i, i + 1) whose second token is predicted
    from the tokens up to the first. (ELMo also predicts the first token from the second token and
    those after it.)"""


class TokenStreams(Shuffled):
    """The `Instances` of a language model: windows of documents of a built corpus."""

    def __init__(
        self, shards: Shards, documents: Int64s, length: int, *, burn_in: int = 0, seed: int = 0
    ) -> None:
        """Divide documents into windows.

        Args:
            documents: `[D]`, the numbers of the documents.
            length: T, the maximum length of a window.
            burn_in: the number of tokens of a window, below T - 1, that repeat the end of the
                previous window and are not predicted.

        Raises:
            DataError: no document has two tokens.
        """
        self.shards = shards
        starts = shards.sentence_tokens[shards.document_sentences]
        added = framing_of(shards.special).special_tokens()
        framed = starts[documents + 1] - starts[documents] + added
        step = length - 1 - burn_in
        windows = np.maximum(0, -(-(framed - 1) // step))  # [D]
        if not windows.sum():
            raise DataError(
                f"{shards.folder} has no document of two tokens to predict from: give it more text"
            )
        owner = np.repeat(np.arange(len(documents)), windows)
        number = ranges(np.zeros_like(windows), windows)
        self._document = documents[owner]  # [windows]
        predicted = number * step  # the first pair that a window predicts, in its document
        self._first = np.maximum(0, predicted - burn_in)
        self._stop = np.minimum(predicted + step + 1, framed[owner])
        self._skipped = predicted - self._first
        super().__init__(self._stop - self._first, length, seed)

    def batch(self, epoch: int, positions: Int64s) -> TokenStreamBatch:
        rows = self.rows(epoch, positions)
        first, lengths = self._first[rows], self.unordered[rows]
        at = ranges(first, lengths)  # position in the framed document
        tokens = framed_tokens(self.shards, np.repeat(self._document[rows], lengths), at)
        predicted = (at >= np.repeat(first + self._skipped[rows], lengths)).nonzero()[0]
        predicted = np.setdiff1d(predicted, np.cumsum(lengths) - 1, assume_unique=True)
        inputs = inputs_of(tokens, lengths)
        return TokenStreamBatch(inputs, inputs.ids, torch.from_numpy(predicted))


def framed_tokens(shards: Shards, document: Int64s, at: Int64s) -> Int64s:
    """Return the tokens of framed documents.

    Args:
        document: `[N]`, the number of each token's document.
        at: `[N]`, the position of each token in its framed document.

    Returns:
        `[N]`.
    """
    starts = shards.sentence_tokens[shards.document_sentences]
    start, stop = starts[document], starts[document + 1]
    framing = framing_of(shards.special)
    inside = start + at - len(framing.begin)
    tokens = shards.tokens_at(np.clip(inside, 0, shards.num_tokens - 1))
    framing.put(tokens, at, stop - start)
    return tokens
