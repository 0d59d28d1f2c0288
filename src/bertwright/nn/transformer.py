"""The Transformer encoder layer (Vaswani et al. 2017, section 3.1), post-norm as BERT has it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.attention import SelfAttention
from bertwright.nn.dropout import Dropout
from bertwright.nn.sequences import Sequences


class FeedForward(nn.Module):
    """`gelu(x W1 + b1) W2 + b2`, each token by itself."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str) -> None:
        super().__init__()
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.approximate = "tanh" if activation == "gelu_tanh" else "none"

    def forward(self, x: Tensor) -> Tensor:
        """x `[N, H]` -> `[N, H]`"""
        inside = F.gelu(self.intermediate(x), approximate=self.approximate)  # [N, F]
        output: Tensor = self.output(inside)
        return output


class TransformerLayer(nn.Module):
    """Attention, then the feed-forward part; each is dropped out, added and normalized."""

    def __init__(
        self,
        hidden_size: int,
        heads: int,
        intermediate_size: int,
        activation: str,
        dropout: float,
        attention_dropout: float,
        eps: float,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(hidden_size, heads, attention_dropout)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sequences: Sequences, places: Tensor | None = None) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or of the tokens at `places` `[R]` alone: `[R, H]`

        Those attend to all tokens all the same; only the work on the others' own vectors is saved.
        """
        context = self.dropout(self.attention(x, sequences, places))
        x = self.attention_norm((x if places is None else x.index_select(0, places)) + context)
        normed: Tensor = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return normed
