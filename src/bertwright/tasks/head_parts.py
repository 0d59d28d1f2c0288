"""What task heads share: their parts, a text's vector, and scores in float32; and TagLM's network.

TagLM is a tagger into which a language model's vectors come halfway (Peters, Ammar, Bhagavatula and
Power 2017, "Semi-supervised sequence tagging with bidirectional language models", section 2):

    word:      [a CNN over its bytes, trained; the encoder's layer 0]
    first:     biLSTM over the words of a sentence
    joined:    [first; the vectors of the language model]
    second:    biLSTM; what is scored, by a CRF if the task has one

Letters: B windows, N tokens in all, H hidden, L layers of the encoder, F width of a feature, W
words, H_0 width of layer 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import HeadConfig
from bertwright.nn.characters import CharacterCnn, character_ids
from bertwright.nn.dropout import Dropout
from bertwright.nn.features import Inside, LayerMix, pool
from bertwright.nn.host import send
from bertwright.nn.recurrent import Lstm
from bertwright.nn.sequences import Sequences

_BYTE_SIZE, _FILTERS, _WIDTH, _MOST_BYTES = 25, ((3, 60),), 30, 50


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
        self.characters = CharacterCnn(_BYTE_SIZE, _FILTERS, _WIDTH)
        self.first = Lstm(_WIDTH + word, size, "both")
        self.second = Lstm(2 * size + features, size, "both")
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
        ids = torch.tensor([character_ids(word, _MOST_BYTES) for word in different]).long()
        ids = ids.view(-1, _MOST_BYTES)
        which = torch.tensor([different[word] for word in words]).long()
        device = features.device
        spelled = self.characters(send(ids, device))[send(which, device)]
        x = self.first(self.dropout(torch.cat([spelled, layer_0], 1)), counts)
        joined = torch.cat([self.dropout(x), features], 1)
        states: Tensor = self.second(joined, counts)
        return states


class Parts(NamedTuple):
    """What is between an encoder and a head's scores."""

    mix: LayerMix | None
    """Unset: the head reads what the encoder gives last."""
    network: Lstm | TagLm | None
    width: int
    """Numbers of a vector that reaches the scores."""
    layers: tuple[int, ...] | None
    """`Objective.layers`."""


def make_parts(head: HeadConfig, widths: Sequence[int]) -> Parts:
    """Build them for an encoder whose layers 0 to L are so wide.

    Raises:
        ConfigError: the encoder does not have these layers.
    """
    mix = None if head.layers is None else LayerMix(head.layers, len(widths) - 1)
    width = widths[-1] if mix is None else mix.width(widths)
    numbers = None if mix is None else mix.numbers
    network: Lstm | TagLm | None = None
    if head.network == "bilstm":
        network = Lstm(width, head.network_size, "both")
    elif head.network == "taglm":
        network = TagLm(widths[0], width, head.network_size, head.dropout)
        numbers = tuple(sorted({0, *(numbers or (len(widths) - 1,))}))
    return Parts(mix, network, 2 * head.network_size if network else width, numbers)


def text_vectors(
    x: Tensor, sequences: Sequences, network: Lstm | TagLm | None, head: HeadConfig
) -> Tensor:
    """A vector for each window out of its tokens'.

    With an LSTM the largest of each number over its states, whatever the pooling (Conneau et al.
    2017, section 3.2.2); without, as `head.pooling` says.

    Args:
        x: `[N, F]`, features of tokens.
        sequences: the windows' lengths.
        network: the LSTM, if there is one.
        head: says which pooling.

    Returns:
        `[B, F]`, `[B, 3 F]` of three poolings, or `[B, 2 size]` with an LSTM; float32.
    """
    if network is not None:
        assert isinstance(network, Lstm)
        return pool(network(x, sequences.lengths), sequences, "max")
    if head.frame == (0, 0) or head.pooling in ("cls", "last"):
        return pool(x, sequences, head.pooling)
    inside = sequences.once(("inside", head.frame), lambda: Inside(sequences, head.frame))
    return pool(inside(x), inside.sequences, head.pooling)


class Scorer(nn.Linear):
    """A linear layer computed in float32, also under autocast.

    Rounded to bfloat16, scores have 8 bits: regressions of 3.01 and 3.02 would be equal.
    """

    def forward(self, input: Tensor) -> Tensor:
        """`[..., F]` -> `[..., C]` float32"""
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input.float(), self.weight.float(), self.bias.float())
