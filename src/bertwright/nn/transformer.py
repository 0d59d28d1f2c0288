"""The Transformer layer (Vaswani et al. 2017, section 3.1): post-norm as BERT and GPT have it, or
pre-norm (GPT-2; Xiong et al. 2020); the decoder's layer; sinusoidal positions (section 3.5).

Letters: N tokens, R of them read, M tokens of a decoder, H hidden, F intermediate, T length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.attention import (
    Attend,
    CrossAttention,
    SelfAttention,
    attend_rows,
    heads_of,
)
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
    """Attention, then the feed-forward part: each is dropped out, added and normalized, or with
    `pre_norm` normalizes what it reads; the sum itself is not normalized then, so a norm follows
    the last layer: `layers_of`."""

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
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(hidden_size, heads, attention_dropout, causal)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)
        self.pre_norm = pre_norm
        self.final_norm: nn.Module | None = None

    def forward(
        self,
        x: Tensor,
        sequences: Sequences,
        positions: Tensor | None = None,
        attend: Attend | None = None,
    ) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or at `positions` `[R]` alone: `[R, H]`

        Those attend to all tokens all the same; only the work on the others' own vectors is saved.
        """
        read = self.attention_norm(x) if self.pre_norm else x
        context = self.dropout(self.attention(read, sequences, positions, attend))
        x = (x if positions is None else x.index_select(0, positions)) + context
        x = x if self.pre_norm else self.attention_norm(x)
        return self.end(self.add(x, self.feed_forward, self.feed_forward_norm))

    def add(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """A part with its norm, its dropout and the sum around it."""
        added: Tensor = x + self.dropout(part(norm(x) if self.pre_norm else x))
        return added if self.pre_norm else norm(added)

    def end(self, x: Tensor) -> Tensor:
        """What the last part gave -> what the layer gives."""
        return x if self.final_norm is None else self.final_norm(x)


def layers_of(
    config: Any, kind: type[TransformerLayer] = TransformerLayer, **more: bool
) -> nn.ModuleList:
    """The layers of a model's configuration; pre-norm ones end with a norm."""
    layers = [
        kind(
            hidden_size=config.hidden_size,
            heads=config.num_attention_heads,
            intermediate_size=config.intermediate_size or 4 * config.hidden_size,
            activation=config.hidden_act,
            dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            eps=config.layer_norm_eps,
            **more,
        )
        for _ in range(config.num_hidden_layers)
    ]
    if layers[-1].pre_norm:
        layers[-1].final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return nn.ModuleList(layers)


Cache = tuple[Tensor, Tensor]
"""Keys and values of R rows, `[R, A, t, D]` each."""


class DecoderLayer(TransformerLayer):
    """Causal attention, attention to the source, the feed-forward part; post-norm or pre-norm."""

    def __init__(self, **sizes: Any) -> None:
        """`sizes` as `TransformerLayer` has them."""
        super().__init__(**sizes, causal=True)
        norm, attention = self.attention_norm, self.attention
        hidden_size = norm.normalized_shape[0]
        self.cross_attention = CrossAttention(hidden_size, attention.heads, attention.dropout)
        self.cross_norm = nn.LayerNorm(hidden_size, eps=norm.eps)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        sequences: Sequences,
        memory: Tensor,
        keys: Sequences,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """x `[M, H]` of B targets, memory `[N, H]` of their sources -> `[M, H]`

        Into `maps`, of one pair, goes how much each token attends to each of its own side,
        `[A, M, M]`, and of the source, `[A, M, N]`.
        """

        def attend_own(y: Tensor) -> Tensor:
            if maps is not None:
                maps.append(self.attention.probabilities(y))
            return self.attention(y, sequences)  # type: ignore[no-any-return]

        def attend_source(y: Tensor) -> Tensor:
            if maps is not None:
                maps.append(self.cross_attention.probabilities(y, memory))
            return self.cross_attention(y, sequences, memory, keys)  # type: ignore[no-any-return]

        return self.parts(x, attend_own, attend_source)

    def step(
        self,
        x: Tensor,
        own: Sequence[Tensor],
        source: Cache,
        bias: Tensor,
        causal: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """The next tokens of each row, over what is kept of those before.

        Args:
            x: `[R, T, H]`.
            own: keys and values of the t tokens before, `[R, A, t, D]` each; none: there are none.
            source: of P sources, `[P, A, S, D]` each; one is that of R / P rows, one after the
                other.
            bias: `[P, 1, 1, S]`, 0 where a source has a token, -inf where it has not.
            causal: `[T, t + T]`, the same of the target; None: all is seen.

        Returns:
            `[R, T, H]`, and `own` with T tokens more.
        """
        kept = []
        cross = self.cross_attention

        def attend_own(y: Tensor) -> Tensor:
            q, k, v = heads_of(self.attention.qkv(y), self.attention.heads, 3)
            if own:
                k, v = torch.cat([own[0], k], 2), torch.cat([own[1], v], 2)
            kept.append((k, v))
            output: Tensor = self.attention.output(attend_rows(q, k, v, causal))
            return output

        def attend_source(y: Tensor) -> Tensor:
            # [P, R / P * T, H]; len() would fix P in an exported graph
            rows = cross.query(y).reshape(bias.shape[0], -1, y.shape[2])
            (q,) = heads_of(rows, cross.heads, 1)
            output: Tensor = cross.output(attend_rows(q, *source, bias))
            return output.view(y.shape)

        return self.parts(x, attend_own, attend_source), kept[0]

    def parts(
        self,
        x: Tensor,
        attend_own: Callable[[Tensor], Tensor],
        attend_source: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """The three parts, one after the other."""
        x = self.add(x, attend_own, self.attention_norm)
        x = self.add(x, attend_source, self.cross_norm)
        return self.end(self.add(x, self.feed_forward, self.feed_forward_norm))


def sinusoids(longest: int, hidden_size: int) -> Tensor:
    """`[T, H]`: sin(t / 10000^(2i / H)) in dimension 2i of position t, cos of it in 2i + 1."""
    frequencies = 10000.0 ** (-torch.arange(0, hidden_size, 2, dtype=torch.float64) / hidden_size)
    angles = torch.arange(longest, dtype=torch.float64)[:, None] * frequencies
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    return waves[:, :hidden_size].float()
