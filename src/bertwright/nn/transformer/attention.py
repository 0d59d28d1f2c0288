"""Attention over sequences laid end to end; nothing attends across the end of a sequence.

Vaswani et al. 2017, section 3.2, in each of A heads:

    softmax(Q K^T / sqrt(D) + bias) V

Attention is

- bidirectional;
- causal: a query sees the keys up to its own position, where positions count back from the end of
  the sequence, so that one new query over a cache of keys sees all of them;
- prefixed: bidirectional over the source, causal over the target (`Sequences.prefixes`);
- or local: a query sees the keys of a window around it (Beltagy et al. 2020).

The bias depends on the distance of a query to a key (Shaw et al. 2018; Raffel et al. 2020); most
models have none.

`attend` computes all of this by the method that suits the device. `flash.py` is one variable-length
call over the whole batch, on CUDA in bf16 and fp16; it has no prefix, no bias and no dropout of
probabilities. `blocks.py` is the rest: products of padded rows.

Letters: N queries, M keys, H hidden, A heads, D = H / A, T and S tokens of a sequence of queries
and of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

from bertwright.nn.sequences import Located, Sequences
from bertwright.nn.transformer import flash
from bertwright.nn.transformer.blocks import attend_in_blocks, split

Attend = Callable[[Tensor], Tensor]
"""qkv `[N, 3 H]` -> context `[N, H]`: attention over a cache of keys and values."""


def weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return attention probabilities, `softmax(Q K^T / sqrt(D) + bias)`: q `[T, A, D]`, k
    `[S, A, D]` -> `[A, T, S]`."""
    scores = q.transpose(0, 1) @ k.permute(1, 2, 0) * q.shape[-1] ** -0.5
    probabilities: Tensor = (scores if bias is None else scores + bias).softmax(-1)
    return probabilities


def attend(
    parts: list[Tensor],
    queries: Sequences,
    keys: Sequences | None = None,
    *,
    causal: bool = False,
    reach: int | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute the attention of each sequence of queries to the sequence of keys at the same index.

    Args:
        parts: queries `[N, A, D]`, keys and values `[M, A, D]`, stacked in one tensor
            `[N, 3, A, D]` or in several, in this order.
        queries: B lengths that sum to N.
        keys: B lengths that sum to M; None: the sequences attend to themselves.
        causal: query i of T sees keys up to S - T + i.
        reach: the largest distance of a key that a query sees, where sequences attend to
            themselves bidirectionally; None: there is no limit.
        bias: `[A, T, T]`, where T is the longest length: the number added to the score of a query
            and a key at these positions of any sequence. It may have a gradient.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, A D]`, the heads side by side.
    """
    if reach is not None and (causal or keys is not None):
        raise ValueError("local attention is of sequences to themselves, and not causal")
    keys = queries if keys is None else keys
    if queries.count != keys.count:
        raise ValueError(f"{queries.count} sequences of queries, but {keys.count} of keys")
    if reach is not None and queries.longest <= reach + 1:
        reach = None  # every query sees its whole sequence
    q, k, v = split(parts)
    prefixed = queries is keys and queries.prefixes is not None and not causal
    is_plain = not prefixed and bias is None and dropout == 0
    if is_plain and flash.takes_flash(q) and (reach is None or flash.has_windows()):
        return flash.attend_varlen(q, k, v, queries, keys, causal, reach)
    return attend_in_blocks(parts, queries, keys, causal, reach, bias, dropout)


class SelfAttention(nn.Module):
    """Attention of each token of a sequence to all of its tokens, or to those up to itself.

    A model whose positions change queries and keys overrides `parts`. One whose positions change
    scores sets `reach` or `bias_at`.
    """

    reach: int | None
    """The largest distance of a key that a query sees; None: there is no limit."""
    bias_at: Callable[[Tensor], Tensor] | None
    """Returns the bias of each head at distances, which are the position of a key minus that of its
    query: `[...]` -> `[A, ...]`. None: there is no bias."""

    def __init__(
        self,
        hidden_size: int,
        heads: int,
        dropout: float = 0.0,
        causal: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.reach = None
        self.bias_at = None
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size, bias)
        self.output = nn.Linear(hidden_size, hidden_size, bias)

    def forward(self, x: Tensor, sequences: Sequences) -> Tensor:
        """Attend, then project: x `[N, H]` of B lengths that sum to N -> `[N, H]`."""
        output: Tensor = self.output(self.context(x, sequences))
        return output

    def context(
        self,
        x: Tensor,
        sequences: Sequences,
        positions: Tensor | None = None,
        attend: Attend | None = None,
    ) -> Tensor:
        """Return the context vectors of attention, before the output projection.

        Args:
            x: `[N, H]`.
            sequences: B lengths that sum to N.
            positions: `[R]`, the tokens whose context is returned; None: all.
            attend: replaces the attention of the sequences to themselves
                (`nn/transformer/cache.py`).

        Returns:
            `[N, H]`, or `[R, H]` with `positions`.
        """
        qkv = self.qkv(x)
        if attend is None:
            context = self.attend(self.parts(qkv, sequences), sequences)
        else:
            context = attend(qkv)
        return context if positions is None else context.index_select(0, positions)

    def parts(
        self, qkv: Tensor, sequences: Located, positions: Tensor | None = None
    ) -> list[Tensor]:
        """Return queries, keys and values in the form in which scores and a cache use them.

        Args:
            qkv: `[N, 3 H]`.
            sequences: B sequences of N tokens in all.
            positions: `[N]`, the positions of the tokens; None: those in `sequences`.

        Returns:
            `[N, n, A, D]`, in one tensor or several.
        """
        return [qkv.view(qkv.shape[0], 3, self.heads, -1)]

    def attend(self, parts: list[Tensor], sequences: Sequences) -> Tensor:
        """Compute the attention of sequences to themselves: the result of `parts` -> `[N, H]`."""
        bias, longest = None, sequences.longest
        if self.bias_at is not None:
            distances = torch.arange(1 - longest, longest, device=sequences.device)
            values = self.bias_at(distances)  # [A, 2 T - 1]
            bias = values.unfold(1, longest, 1).flip(1)  # [A, T, T]: row i begins at distance -i
        return attend(
            parts,
            sequences,
            causal=self.causal,
            reach=self.reach,
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
        )

    def bias_between(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return what the distance of a query to a key adds to their score.

        Args:
            queries: `[T]`, the positions of the queries.
            keys: `[S]`, the positions of the keys.

        Returns:
            `[A, T, S]` or `[1, T, S]`; -inf where a query does not see a key. None: scores do not
            depend on distances.
        """
        if self.reach is None and self.bias_at is None:
            return None
        distances = keys - queries[:, None]
        bias = None if self.bias_at is None else self.bias_at(distances)
        if self.reach is None:
            return bias
        far = distances.abs() > self.reach
        window = torch.zeros(1, *far.shape, device=keys.device).masked_fill_(far, -torch.inf)
        return window if bias is None else bias + window

    @property
    def bias_key(self) -> Hashable:
        """A value that is equal for the layers of a model whose `bias_between` is the same."""
        return self.reach, self.bias_at

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> Tensor:
        """Return the attention probabilities of one sequence.

        They are computed again, because the fast methods do not keep them. x `[T, H]`, the layer's
        input -> `[A, T, T]` float32, whose rows sum to 1.
        """
        sequence = Sequences([len(x)], x.device)
        qkv = self.qkv(x.to(self.qkv.weight)).float()
        q, k, _ = split(self.parts(qkv, sequence))
        bias = self.bias_between(sequence.positions, sequence.positions)
        if self.causal:
            before = sequence.positions <= sequence.positions[:, None]  # [T, T]
            causal = torch.zeros_like(before, dtype=q.dtype).masked_fill_(~before, -torch.inf)
            bias = causal if bias is None else bias + causal
        return weights(q, k, bias)


class CrossAttention(nn.Module):
    """Attention of one set of sequences to another (of a decoder to its encoder)."""

    def __init__(
        self, hidden_size: int, heads: int, dropout: float = 0.0, key_size: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key_value = nn.Linear(key_size or hidden_size, 2 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor, queries: Sequences, memory: Tensor, keys: Sequences) -> Tensor:
        """Attend: x `[N, H]`, memory `[M, H]` -> `[N, H]`. Sequence i of `queries` attends to
        sequence i of `keys`."""
        q = self.query(x).view(len(x), 1, self.heads, -1)
        dropout = self.dropout if self.training else 0.0
        context = attend([q, self.keys_values(memory)], queries, keys, dropout=dropout)
        output: Tensor = self.output(context)
        return output

    def keys_values(self, memory: Tensor) -> Tensor:
        """Return the keys and values of memory `[M, H]`, `[M, 2, A, D]`.

        A decoder computes them once per source.
        """
        keys_values: Tensor = self.key_value(memory)
        return keys_values.view(len(memory), 2, self.heads, -1)

    @torch.no_grad()
    def probabilities(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the attention probabilities of one sequence to another.

        x `[T, H]`, memory `[S, H]` -> `[A, T, S]` float32, whose rows sum to 1.
        """
        q = self.query(x).view(len(x), self.heads, -1)
        return weights(q.float(), self.keys_values(memory)[:, 0].float())
