"""The plain backend: torch as a model is trained.

Every backend takes sequences of ids and returns the requested layers. What is not float32
by torch is compared with it on a sample before it is used (`choice.py`).

Letters: n sequences, N tokens of a batch, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor

from bertwright.inference.encode import Ids, Positions, encode_batches
from bertwright.models.encoder import Encoder
from bertwright.nn.sequences import Sequences


class LayerBatch(NamedTuple):
    """Layers of a batch of sequences."""

    rows: list[int]
    """The numbers of the sequences."""
    sequences: Sequences
    layers: list[Tensor]
    """`[N, H]` each."""


class Backend(Protocol):
    """Computes layers."""

    name: str
    """For people: `torch bf16`."""

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Batches of some of the n sequences, in any order, each sequence once.

        Args:
            ids: n sequences, each with its special tokens.
            segments: of their tokens; None: all 0.
            layers: 0 the embeddings, 1 and up the layers.
            positions: where the highest of these is read; None: everywhere. Elsewhere it may hold
                no numbers.
        """
        ...


class PlainBackend:
    """An encoder as it is, on its device."""

    def __init__(self, encoder: Encoder, batch_tokens: int, name: str = "torch fp32") -> None:
        self.encoder, self.batch_tokens, self.name = encoder, batch_tokens, name

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """See `Backend`; computes all of every layer."""
        batches = encode_batches(
            self.encoder, ids, segments, self.batch_tokens, top=max(layers), keep_layers=True
        )
        for rows, encoded in batches:
            yield LayerBatch(rows, encoded.sequences, [encoded.layers[n] for n in layers])
