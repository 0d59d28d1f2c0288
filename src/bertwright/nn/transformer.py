"""The Transformer layer (Vaswani et al. 2017, section 3.1): post-norm as BERT and GPT have it, or
pre-norm (GPT-2; Xiong et al. 2020). Letters: N tokens, R of them read, H hidden, F intermediate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.attention import SelfAttention
from bertwright.nn.dropout import Dropout
from bertwright.nn.sequences import Sequences

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
"""By the names that configurations use; `gelu` is by the error function."""


class FeedForward(nn.Module):
    """`activation(x W1 + b1) W2 + b2`, each token by itself."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str) -> None:
        super().__init__()
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """x `[N, H]` -> `[N, H]`"""
        output: Tensor = self.output(self.activation(self.intermediate(x)))
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
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(hidden_size, heads, attention_dropout, causal)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sequences: Sequences, positions: Tensor | None = None) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or at `positions` `[R]` alone: `[R, H]`

        Those attend to all tokens all the same; only the work on the others' own vectors is saved.
        """
        context = self.dropout(self.attention(x, sequences, positions))
        x = self.attention_norm(
            (x if positions is None else x.index_select(0, positions)) + context
        )
        normed: Tensor = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return normed


class PreNormLayer(TransformerLayer):
    """The same parts, each normalizing what it reads; the sum itself is not normalized, so a norm
    follows the last layer."""

    def forward(self, x: Tensor, sequences: Sequences, positions: Tensor | None = None) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or at `positions` `[R]` alone: `[R, H]`"""
        context = self.dropout(self.attention(self.attention_norm(x), sequences, positions))
        x = (x if positions is None else x.index_select(0, positions)) + context
        added: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return added
