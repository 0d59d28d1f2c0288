"""TagLM: a tagger into which a language model's vectors come halfway.

Peters, Ammar, Bhagavatula and Power 2017, "Semi-supervised sequence tagging with bidirectional
language models", section 2 and figure 2:

    word:      [a CNN over its bytes, trained; the encoder's layer 0]
    first:     biLSTM over the words of a sentence
    joined:    [first; the vectors of the language model]
    second:    biLSTM; what is scored, by a CRF if the task has one

Letters: W words, H_0 width of the encoder's layer 0, F width of the language model's vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertwright.nn.characters import CharacterCnn, character_ids
from bertwright.nn.dropout import Dropout
from bertwright.nn.recurrent import BiLstm

BYTE_SIZE, FILTERS, WIDTH, MOST_BYTES = 25, ((3, 60),), 30, 50


class TagLm(nn.Module):
    """Two biLSTMs over words."""

    def __init__(self, word: int, features: int, size: int, dropout: float) -> None:
        """Build it.

        Args:
            word: H_0.
            features: F.
            size: width of each direction of the LSTMs.
            dropout: before and between the LSTMs.
        """
        super().__init__()
        self.characters = CharacterCnn(BYTE_SIZE, FILTERS, WIDTH)
        self.first = BiLstm(WIDTH + word, size)
        self.second = BiLstm(2 * size + features, size)
        self.dropout = Dropout(dropout)

    def forward(
        self, words: Sequence[str], layer_0: Tensor, features: Tensor, counts: Sequence[int]
    ) -> Tensor:
        """Read each sentence.

        Args:
            words: W words, sentence by sentence.
            layer_0: `[W, H_0]`.
            features: `[W, F]`, of the language model.
            counts: words of each sentence, W in all.

        Returns:
            `[W, 2 size]` float32
        """
        different = {word: number for number, word in enumerate(dict.fromkeys(words))}
        ids = torch.tensor([character_ids(word, MOST_BYTES) for word in different]).long()
        ids = ids.view(-1, MOST_BYTES)
        which = torch.tensor([different[word] for word in words]).long()
        device = features.device
        spelled = self.characters(ids.to(device))[which.to(device)]
        x = self.first(self.dropout(torch.cat([spelled, layer_0], 1)), counts)
        joined = torch.cat([self.dropout(x), features], 1)
        states: Tensor = self.second(joined, counts)
        return states
