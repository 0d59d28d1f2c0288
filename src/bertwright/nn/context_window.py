"""The tokens before each token, as rows of one table: what a model of fixed context reads.

Letters: N tokens of all sequences, K of them that are read, C tokens of context, H hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertwright.nn.sequences import Sequences


def context_vectors(
    x: Tensor, start: Tensor, sequences: Sequences, context: int, positions: Tensor | None = None
) -> Tensor:
    """The vectors of the last C tokens up to each token, its own first.

    Args:
        x: `[N, H]`, sequences end to end.
        start: `[H]`, stands for every token before a sequence's first.
        sequences: B lengths that sum to N.
        context: C.
        positions: `[K]` in N; None: all.

    Returns:
        `[K, C H]`.
    """
    within = sequences.positions if positions is None else sequences.positions[positions]
    last = torch.arange(len(x), device=x.device) if positions is None else positions
    back = torch.arange(context, device=x.device)
    rows = torch.where(back <= within[:, None], last[:, None] - back, len(x))  # [K, C]
    return torch.cat([x, start[None].to(x.dtype)])[rows].flatten(1)
