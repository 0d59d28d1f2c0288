"""What every encoder of the lineage gives: a vector for each token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bertwright.nn.sequences import Sequences


@dataclass(frozen=True)
class Encoded:
    """What an encoder saw: one vector a token, end to end, and the layers below if asked for."""

    sequences: Sequences
    """B lengths that sum to N."""
    last: Tensor
    """`[N, H]`, the top layer that was computed."""
    layers: tuple[Tensor, ...] = ()
    """Embeddings first, top last, each `[N, H]`; empty unless asked for."""
    pooled: Tensor | None = None
    """`[B, H]`, a vector for each sequence, if the encoder has one."""
