"""Self-attention over sequences laid end to end: the only brick that asks where a sequence ends.

Vaswani et al. 2017, section 3.2: `softmax(Q K^T / sqrt(D)) V` in each of A heads.

| where | how |
|---|---|
| CPU | neighbours of equal length go through one batched product; `BlockAttention` keeps its own
        gradient, because the fused kernel's backward is three times slower at length 128 |
| CUDA | one variable-length flash call over the whole batch |
| dropout of probabilities above 0 | plain products, group by group, on any device |

Letters: N tokens, H hidden, A heads, D = H / A, T a sequence's length, b sequences of equal length.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.sequences import Group, Sequences

# Scores of one block fill at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21


class SelfAttention(nn.Module):
    """Every token of a sequence attends to every token of it, in A heads."""

    def __init__(self, hidden_size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor, sequences: Sequences) -> Tensor:
        """x `[N, H]` -> `[N, H]`"""
        dropout = self.dropout if self.training else 0.0
        context = attend(self.qkv(x), self.heads, sequences, dropout)
        output: Tensor = self.output(context)
        return output


def attend(qkv: Tensor, heads: int, sequences: Sequences, dropout: float = 0.0) -> Tensor:
    """Attention from queries, keys and values side by side.

    Args:
        qkv: `[N, 3 H]`, each row query, key and value, each A heads of D.
        heads: A.
        sequences: the bounds; nothing attends across them.
        dropout: share of attention probabilities to drop.

    Returns:
        `[N, H]`, the heads side by side.
    """
    if dropout > 0:
        parts = [
            _attend_plainly(qkv[g.start : g.stop], heads, g, dropout) for g in sequences.groups
        ]
        return torch.cat(parts)
    if qkv.is_cuda and qkv.dtype in (torch.float16, torch.bfloat16):
        return _attend_varlen(qkv, heads, sequences)
    return BlockAttention.apply(qkv, heads, _blocks(sequences, heads))  # type: ignore[no-any-return, no-untyped-call]


def _attend_plainly(qkv: Tensor, heads: int, group: Group, dropout: float) -> Tensor:
    """Attention of one group with dropped probabilities: `[b T, 3 H]` -> `[b T, H]`."""
    q, k, v = _split(qkv, heads, group)
    probabilities = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    context = F.dropout(probabilities, dropout) @ v  # [b A, T, D]
    return _join(context, heads, group)


def _attend_varlen(qkv: Tensor, heads: int, sequences: Sequences) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = qkv.view(sequences.total, 3, heads, -1).unbind(1)  # [N, A, D] each
    bounds, longest = sequences.bounds, sequences.longest
    context = varlen_attn(q, k, v, bounds, bounds, longest, longest)
    assert isinstance(context, Tensor)
    return context.reshape(sequences.total, -1)


def _split(qkv: Tensor, heads: int, group: Group) -> tuple[Tensor, Tensor, Tensor]:
    """`[b T, 3 H]` -> three of `[b A, T, D]`."""
    rows = qkv.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    q, k, v = rows.reshape(3, group.count * heads, group.length, -1).unbind(0)
    return q, k, v


def _join(context: Tensor, heads: int, group: Group) -> Tensor:
    """`[b A, T, D]` -> `[b T, H]`."""
    rows = context.view(group.count, heads, group.length, -1).transpose(1, 2)
    return rows.reshape(group.count * group.length, -1)


def _blocks(sequences: Sequences, heads: int) -> list[Group]:
    """The groups, cut so that a block's scores stay in cache."""
    blocks = []
    for group in sequences.groups:
        length = group.length
        most = max(1, BLOCK // (heads * length * length))
        for done in range(0, group.count, most):
            count = min(most, group.count - done)
            start = group.start + done * length
            blocks.append(Group(start, start + count * length, count, length))
    return blocks


class BlockAttention(torch.autograd.Function):
    """Attention block by block, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int, blocks: list[Group]) -> Tensor:
        """qkv `[N, 3 H]` -> `[N, H]`"""
        context = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
        kept = []
        for block in blocks:
            q, k, v = _split(qkv[block.start : block.stop], heads, block)
            p = torch.bmm(q * q.shape[-1] ** -0.5, k.transpose(1, 2)).softmax(-1)  # [b A, T, T]
            context[block.start : block.stop] = _join(torch.bmm(p, v), heads, block)
            kept.append(p)
        if ctx.needs_input_grad[0]:
            ctx.heads, ctx.blocks = heads, blocks
            ctx.save_for_backward(qkv, *kept)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """gradient `[N, H]` -> gradient of qkv `[N, 3 H]`"""
        qkv, *kept = ctx.saved_tensors
        heads = ctx.heads
        d_qkv = torch.empty_like(qkv)
        for block, p in zip(ctx.blocks, kept, strict=True):
            rows = slice(block.start, block.stop)
            q, k, v = _split(qkv[rows], heads, block)
            shape = (block.count, block.length, heads, -1)
            d_context = gradient[rows].view(shape).transpose(1, 2).reshape(v.shape)
            d_p = torch.bmm(d_context, v.transpose(1, 2))
            d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
            scale = q.shape[-1] ** -0.5
            out = d_qkv[rows].view(block.count, block.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            split = (block.count, heads, block.length, -1)
            out[0] = torch.bmm(d_s, k * scale).view(split)
            out[1] = torch.bmm(d_s.transpose(1, 2), q * scale).view(split)
            out[2] = torch.bmm(p.transpose(1, 2), d_context).view(split)
        return d_qkv, None, None
