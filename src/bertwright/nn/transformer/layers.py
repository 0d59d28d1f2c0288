"""The layers of Transformer encoders and decoders (Vaswani et al. 2017, section 3.1), and
sinusoidal positions (section 3.5).

Norms come after each part (post-norm: BERT, GPT) or before it (pre-norm: GPT-2; Xiong et al. 2020).

Letters: N tokens, R tokens whose output is computed, M tokens of a decoder, H hidden, F
intermediate, T length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.attention import Attend, CrossAttention, SelfAttention
from bertwright.nn.transformer.cache import KeysValues, attend_rows, heads_of

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
"""The activations by their names in configurations; `gelu` uses the error function."""


class FeedForward(nn.Module):
    """`activation(x W1 + b1) W2 + b2` for each token."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str) -> None:
        super().__init__()
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward part: x `[N, H]` -> `[N, H]`."""
        output: Tensor = self.output(self.activation(self.intermediate(x)))
        return output


class TransformerLayer(nn.Module):
    """Self-attention, then a feed-forward part, each with dropout and a residual connection.

    A norm follows each sum (post-norm) or precedes each part (`pre_norm`). With `pre_norm` the
    output of the last layer needs one more norm, which `layers_of` adds.
    """

    def __init__(
        self,
        attention: SelfAttention,
        attention_norm: nn.LayerNorm,
        feed_forward: FeedForward,
        feed_forward_norm: nn.LayerNorm,
        dropout: float,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = attention_norm
        self.feed_forward = feed_forward
        self.feed_forward_norm = feed_forward_norm
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
        """Run the layer: x `[N, H]` -> `[N, H]`, or `[R, H]` with `positions` `[R]`.

        With `positions`, the output is computed only for the tokens there; they attend to all
        tokens as usual.
        """
        read = self.attention_norm(x) if self.pre_norm else x
        context = self.attention.context(read, sequences, positions, attend)
        x = x if positions is None else x.index_select(0, positions)
        return self.after_attention(x, context)

    def after_attention(self, x: Tensor, context: Tensor) -> Tensor:
        """Run the part of the layer after attention, which treats each token by itself.

        Args:
            x: `[N, H]`, the input of the layer.
            context: `[N, H]`, the context vectors of its attention, before the output projection.

        Returns:
            `[N, H]`.
        """
        x = x + self.dropout(self.attention.output(context))
        x = x if self.pre_norm else self.attention_norm(x)
        return self.end(self.add(x, self.feed_forward, self.feed_forward_norm))

    def compile_parts(self) -> None:
        """Compile the part that treats each token by itself, for any number of tokens."""
        self.after_attention = torch.compile(self.after_attention, dynamic=True)  # type: ignore[method-assign]

    def add(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """Run a part with its norm, its dropout and its residual connection."""
        added: Tensor = x + self.dropout(part(norm(x) if self.pre_norm else x))
        return added if self.pre_norm else norm(added)

    def end(self, x: Tensor) -> Tensor:
        """Apply the norm that follows the last pre-norm layer, if this is that layer."""
        return x if self.final_norm is None else self.final_norm(x)


class DecoderLayer(TransformerLayer):
    """Causal self-attention, attention to the source, then a feed-forward part."""

    def __init__(
        self, cross_attention: CrossAttention, cross_norm: nn.LayerNorm, **parts: Any
    ) -> None:
        """Build the layer; `parts` are the arguments of `TransformerLayer`."""
        super().__init__(**parts)
        self.cross_attention, self.cross_norm = cross_attention, cross_norm

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        sequences: Sequences,
        memory: Tensor,
        keys: Sequences,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Run the layer: x `[M, H]` of B targets, memory `[N, H]` of their sources -> `[M, H]`.

        With `maps`, which is allowed for a single pair only, append to it the attention
        probabilities of each target token to the target, `[A, M, M]`, and to the source,
        `[A, M, N]`.
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

    def compile_parts(self) -> None:
        self.feed_forward.compile(dynamic=True)

    def step(self, x: Tensor, attend: Attend, source: KeysValues, bias: Tensor) -> Tensor:
        """Run the next tokens of R rows, which see the tokens before them by `attend`.

        Args:
            x: `[R, H]`; `[R, T, H]` where `attend` takes several tokens of a row.
            attend: the self-attention over a cache.
            source: keys and values of P sources, `[P, A, S, D]` each; R / P consecutive rows share
                a source.
            bias: `[P, 1, 1, S]`, 0 where a source has a token, -inf at padding.

        Returns:
            The output, of the shape of x.
        """

        def attend_own(y: Tensor) -> Tensor:
            output: Tensor = self.attention.output(attend(self.attention.qkv(y)))
            return output

        def attend_source(y: Tensor) -> Tensor:
            cross = self.cross_attention
            # [P, R / P * T, H]; len() would make P a constant of an exported graph
            rows = cross.query(y).reshape(bias.shape[0], -1, y.shape[-1])
            (q,) = heads_of(rows, cross.heads, 1)
            output: Tensor = cross.output(attend_rows(q, *source, bias))
            return output.view(y.shape)

        return self.parts(x, attend_own, attend_source)

    def parts(
        self,
        x: Tensor,
        attend_own: Callable[[Tensor], Tensor],
        attend_source: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Run self-attention, attention to the source and the feed-forward part in this order."""
        x = self.add(x, attend_own, self.attention_norm)
        x = self.add(x, attend_source, self.cross_norm)
        return self.end(self.add(x, self.feed_forward, self.feed_forward_norm))


def sinusoids(longest: int, hidden_size: int) -> Tensor:
    """Return sinusoidal positions `[T, H]`: sin(t / 10000^(2i / H)) in dimension 2i of position t,
    and cos(t / 10000^(2i / H)) in dimension 2i + 1."""
    frequencies = 10000.0 ** (-torch.arange(0, hidden_size, 2, dtype=torch.float64) / hidden_size)
    angles = torch.arange(longest, dtype=torch.float64)[:, None] * frequencies
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    return waves[:, :hidden_size].float()


def layers_of(config: Any, causal: bool = False, pre_norm: bool = False) -> nn.ModuleList:
    """Return the layers of a configuration. If they are pre-norm, the last one ends with a norm."""
    numbers = range(config.num_hidden_layers)
    layers = [TransformerLayer(**_parts(config, causal, pre_norm)) for _ in numbers]
    return _with_final_norm(layers, config)


def decoder_layers_of(config: Any, pre_norm: bool = False) -> nn.ModuleList:
    """Return the layers of a decoder over a source of the same width, as `layers_of` does."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    layers = [
        DecoderLayer(
            **_parts(config, True, pre_norm),
            cross_attention=CrossAttention(hidden, heads, config.attention_probs_dropout_prob),
            cross_norm=nn.LayerNorm(hidden, eps=config.layer_norm_eps),
        )
        for _ in range(config.num_hidden_layers)
    ]
    return _with_final_norm(layers, config)


def _parts(config: Any, causal: bool, pre_norm: bool) -> dict[str, Any]:
    """Return the arguments of a `TransformerLayer`."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    inside, eps = config.intermediate_size or 4 * hidden, config.layer_norm_eps
    return {
        "attention": SelfAttention(hidden, heads, config.attention_probs_dropout_prob, causal),
        "attention_norm": nn.LayerNorm(hidden, eps=eps),
        "feed_forward": FeedForward(hidden, inside, config.hidden_act),
        "feed_forward_norm": nn.LayerNorm(hidden, eps=eps),
        "dropout": config.hidden_dropout_prob,
        "pre_norm": pre_norm,
    }


def _with_final_norm(layers: Sequence[TransformerLayer], config: Any) -> nn.ModuleList:
    if layers[-1].pre_norm:
        layers[-1].final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return nn.ModuleList(layers)
