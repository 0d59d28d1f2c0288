"""The interface of a backend, and the plain one: an encoder as it was loaded.

Every backend takes sequences of ids and returns the requested layers. Backends other than the model
as it was loaded are compared with float32 on a sample before they are used (`choice.py`).

Letters: n sequences, N tokens of a batch, H hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor

from bertwright.inference.encode import Ids, Positions, encode_batches
from bertwright.nn.encoder import Encoder
from bertwright.nn.sequences import Sequences


class LayerBatch(NamedTuple):
    """The layers of a batch of sequences."""

    rows: list[int]
    """The indices of the sequences."""
    sequences: Sequences
    layers: list[Tensor]
    """The layers, `[N, H]` each."""


class Backend(Protocol):
    """Computes the layers of an encoder for batches of ids."""

    name: str
    """A description such as `torch bf16`."""

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield batches of some of the n sequences, in any order, each sequence once.

        Args:
            ids: n sequences, each with its special tokens.
            segments: the segments of their tokens; None: all 0.
            layers: the layers to return; 0 is the embeddings.
            positions: the positions at which the highest of these layers is read; None: all.
                Elsewhere it may be NaN.
        """
        ...


class PlainBackend:
    """Backend that runs an encoder unchanged, on its device."""

    def __init__(self, encoder: Encoder, batch_tokens: int, name: str = "torch fp32") -> None:
        self.encoder, self.batch_tokens, self.name = encoder, batch_tokens, name

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield the requested layers for all tokens, whatever `positions` is; see `Backend`."""
        batches = encode_batches(
            self.encoder, ids, segments, self.batch_tokens, top=max(layers), keep_layers=True
        )
        for rows, encoded in batches:
            yield LayerBatch(rows, encoded.sequences, [encoded.layers[n] for n in layers])
