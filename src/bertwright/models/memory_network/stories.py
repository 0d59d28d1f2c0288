"""Stories as instances: each has sentences to remember, a question, and the word that answers it.

A story is a document of the shards. Its last sentence is the answer, one token. The sentence before
that is the question. The others are the memory, of which the newest `memory_size` are kept.

Letters: B stories, N tokens in all, S sentences in all, including questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Int64s
from bertwright.data.batch import collate
from bertwright.data.instances import Shuffled
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.nn.batch import Batch


@dataclass(frozen=True)
class StoryBatch(Batch):
    """B stories, longest first: the sentences of each, then its question."""

    sentence_lengths: Tensor
    """`[S]`: the number of tokens of each sentence."""
    story_sentences: Tensor
    """`[B]`: the number of sentences of each story, including the question."""
    answers: Tensor
    """`[B]`: the token ids of the answers."""


class Stories(Shuffled):
    """The `Instances` of memory networks: some documents of a built corpus."""

    def __init__(
        self, shards: Shards, documents: Int64s, memory_size: int, longest: int, seed: int = 0
    ) -> None:
        """Open the documents with the numbers `documents` `[D]`."""
        last = shards.document_sentences[documents + 1] - 1  # [D] the answers
        answer_tokens = np.diff(shards.sentence_tokens)[last]
        short = last - shards.document_sentences[documents] < 2
        wrong = np.flatnonzero(short | (answer_tokens != 1))
        if len(wrong):
            raise DataError(
                f"document {documents[wrong[0]] + 1} of {shards.folder} is no story: expected one "
                "sentence per line, the last two lines the question and its answer of one word, "
                "then a blank line (a file of a bAbI task can stay as it is): build the data with "
                "--sentences line and a tokenizer of words"
            )
        self.shards = shards
        self._answer = last
        self._first = np.maximum(shards.document_sentences[documents], last - 1 - memory_size)
        starts = shards.sentence_tokens
        super().__init__(starts[last] - starts[self._first], longest, seed)
        if self.unordered.max() > longest:
            raise DataError(
                f"{shards.folder} has a story of {self.unordered.max()} tokens; raise "
                f"--longest-story, which is {longest}, or lower --architecture.memory-size"
            )

    def batch(self, epoch: int, positions: Int64s) -> StoryBatch:
        rows = self.rows(epoch, positions)
        starts = self.shards.sentence_tokens
        first, answer = self._first[rows], self._answer[rows]
        stories = [starts[a : b + 1] for a, b in zip(first, answer, strict=True)]
        inputs, _ = collate([self.shards.tokens(ends[0], ends[-1]) for ends in stories])
        lengths = np.concatenate([np.diff(ends) for ends in stories])
        return StoryBatch(
            inputs,
            sentence_lengths=torch.from_numpy(lengths),
            story_sentences=torch.from_numpy(answer - first),
            answers=torch.from_numpy(self.shards.tokens_at(starts[answer])),
        )
