"""Embeddings below a stack of Transformer layers: the vectors of tokens and of their positions.

Letters: N tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertwright.nn.init import truncated_normal
from bertwright.nn.layers.dropout import Dropout


class Embeddings(nn.Module):
    """Turns ids and positions into vectors, with dropout. A subclass defines their sum."""

    __call__: Callable[..., Tensor]
    token: nn.Embedding
    """The table of token vectors, `[V, H]`."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """Return the vector of each token before dropout, `[N, H]`; the arguments are those of
        `forward`."""
        raise NotImplementedError(f"{type(self).__name__} defines no sum")

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Return the vector of each token, in the autocast dtype under autocast.

        Args:
            ids: `[N]`.
            positions: `[N]`, the position of each token in its sequence.
            segments: `[N]`; None: all 0. Models without segments ignore them.

        Returns:
            `[N, H]`.
        """
        x = self.sum(ids, positions, segments)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)


def make_table(count: int, width: int, std: float) -> nn.Embedding:
    """Return an embedding initialized as published.

    The initialization of `nn.Embedding` has 50 times the standard deviation, and on the meta device
    it loads torch's compiler, which takes longer than building a model.
    """
    initial = truncated_normal(torch.empty(count, width), std)
    embedding: nn.Embedding = nn.Embedding.from_pretrained(initial, freeze=False)  # type: ignore[no-untyped-call]
    return embedding
