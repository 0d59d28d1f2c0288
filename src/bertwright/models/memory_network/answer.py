"""End-to-end memory networks: the model reads its memory several times, then answers with one word.

Sukhbaatar, Szlam, Weston and Fergus 2015, "End-To-End Memory Networks", sections 2 and 4.1. With
tables A_1 ... A_(K+1) of word vectors and adjacent tying (B = A_1, C_k = A_(k+1), W = A_(K+1)):

    sentence i:  m_i = sum_j l_j * A_k x_ij + T_k(i)       l_j: position encoding
    question:    u_1 = sum_j l_j * A_1 q_j
    hop k:       p = softmax(u_k m_i);  u_(k+1) = u_k + sum_i p_i c_i,  c_i as m_i with A_(k+1)
    answer:      softmax(A_(K+1) u_(K+1))
    l_j[h] = (1 - j / J) - (h / H) (1 - 2 j / J)           j of J words, h of H numbers, from 1

A_1 is the encoder, a table of word vectors. A run with the linear start (section 4.2) begins with p
= u_k m_i.

Letters: B stories, N tokens, S sentences, M of them memories, H hidden, V vocabulary, K hops.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.memory_network.config import MemoryNetworkConfig
from bertwright.models.memory_network.stories import StoryBatch
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.ragged import log_softmax


class StoryAnswer(Objective[StoryBatch]):
    """The objective that predicts the answer of each story of a `StoryBatch`."""

    title = "answer"

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        self.config = config
        sizes = (config.vocab_size, config.hidden_size)
        self.tables = nn.ModuleList(nn.Embedding(*sizes) for _ in range(config.hops))
        times = (config.memory_size, config.hidden_size)
        self.times = nn.ModuleList(nn.Embedding(*times) for _ in range(config.hops + 1))

    def count(self, batch: StoryBatch) -> int:
        """Return B, the number of stories in a batch."""
        return len(batch.answers)

    def forward(self, encoded: Encoded, batch: StoryBatch) -> Loss:
        """Return the cross-entropy summed over stories."""
        logits, _ = self.hops(encoded, batch)
        correct = (logits.argmax(1) == batch.answers).sum()
        return Loss(F.cross_entropy(logits, batch.answers, reduction="sum"), len(logits), correct)

    def hops(self, encoded: Encoded, batch: StoryBatch) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of the answers `[B, V]`, and for each hop the attention weight of each
        memory, `[M]`. With a softmax, these weights sum to 1 over a story.
        """
        states, maps = self.states(encoded, batch)
        return self.logits(states[-1]), maps

    def logits(self, u: Tensor) -> Tensor:
        """Return the logits of the answers `[B, V]` after a hop, given u `[B, H]`."""
        last: Any = self.tables[-1]
        return F.linear(u, last.weight).float()

    def states(self, encoded: Encoded, batch: StoryBatch) -> tuple[list[Tensor], list[Tensor]]:
        """Return u before the first hop and after each hop, `[B, H]`, and for each hop the
        attention weight of each memory, `[M]`.
        """
        ids, device = batch.inputs.ids, encoded.last.device
        in_sentences, in_stories = batch.sentence_lengths, batch.story_sentences  # [S], [B]
        count, stories = len(in_sentences), len(in_stories)
        # with the sizes given, the host does not wait for the GPU to count
        sentence = torch.repeat_interleave(in_sentences, output_size=len(ids))  # [N]
        of_story = torch.repeat_interleave(in_stories - 1, output_size=count - stories)  # [M]
        remembered = (
            torch.arange(count - stories, device=device) + of_story
        )  # [M]: skips the questions
        questions = in_stories.cumsum(0) - 1  # [B]: the last sentence of each story
        age = questions[of_story] - 1 - remembered  # [M]: 0 for the sentence before the question
        weights = self._position_weights(in_sentences, sentence, encoded.last.dtype)

        def sentences(words: Tensor) -> Tensor:
            """Return the vectors of sentences: words `[N, H]` -> `[S, H]`."""
            zeros = words.new_zeros(count, words.shape[1])
            return zeros.index_add(0, sentence, words * weights)

        def memories(number: int, of_sentences: Tensor) -> Tensor:
            times: Tensor = self.times[number](age)
            return of_sentences.index_select(0, remembered) + times

        read = sentences(encoded.last)
        u = read.index_select(0, questions)  # [B, H]
        states, maps = [u], []
        for number, table in enumerate(self.tables):
            m = memories(number, read)  # [M, H]
            scores = (u[of_story] * m).sum(1, keepdim=True)
            softmax = self.config.softmax
            p = log_softmax(scores, of_story, stories).exp() if softmax else scores  # [M, 1]
            read = sentences(table(ids))
            u = u.index_add(0, of_story, p * memories(number + 1, read))
            states.append(u)
            maps.append(p[:, 0])
        return states, maps

    def _position_weights(self, lengths: Tensor, sentence: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the position encoding l of every word, `[N, H]`."""
        ends, exact = lengths.cumsum(0), lengths.to(dtype)
        words = torch.arange(len(sentence), device=lengths.device)
        j = (words - (ends - lengths)[sentence] + 1)[:, None] / exact[sentence][:, None]
        width = self.config.hidden_size
        h = torch.arange(1, width + 1, device=lengths.device, dtype=dtype) / width
        return (1 - j) - h * (1 - 2 * j)
