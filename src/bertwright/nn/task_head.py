"""What task heads share: their parts, a text's vector, and scores in float32.

Letters: B windows, N tokens in all, H hidden, L layers of the encoder, F width of a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import HeadConfig
from bertwright.nn.layer_mix import LayerMix
from bertwright.nn.pooling import pool
from bertwright.nn.recurrent import BiLstm
from bertwright.nn.sequences import Sequences
from bertwright.nn.taglm import TagLm


class Parts(NamedTuple):
    """What is between an encoder and a head's scores."""

    mix: LayerMix | None
    """Unset: the head reads what the encoder gives last."""
    network: BiLstm | TagLm | None
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
    network: BiLstm | TagLm | None = None
    if head.network == "bilstm":
        network = BiLstm(width, head.network_size)
    elif head.network == "taglm":
        network = TagLm(widths[0], width, head.network_size, head.dropout)
        numbers = tuple(sorted({0, *(numbers or (len(widths) - 1,))}))
    return Parts(mix, network, 2 * head.network_size if network else width, numbers)


def text_vectors(
    x: Tensor, sequences: Sequences, network: BiLstm | TagLm | None, head: HeadConfig
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
    if network is None:
        return pool(x, sequences, head.pooling)
    assert isinstance(network, BiLstm)
    return pool(network(x, sequences.lengths), sequences, "max")


class Scorer(nn.Linear):
    """A linear layer computed in float32, also under autocast.

    Rounded to bfloat16, scores have 8 bits: regressions of 3.01 and 3.02 would be equal.
    """

    def forward(self, input: Tensor) -> Tensor:
        """`[..., F]` -> `[..., C]` float32"""
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input.float(), self.weight.float(), self.bias.float())
