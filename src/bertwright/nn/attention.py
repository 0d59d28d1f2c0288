"""Self-attention over sequences laid end to end: the only brick that asks where a sequence ends.

Vaswani et al. 2017, section 3.2: `softmax(Q K^T / sqrt(D)) V` in each of A heads.

| where | how |
|---|---|
| CPU | neighbours of equal or nearly equal length go through one batched product; `BlockAttention`
        keeps its own gradient, because the fused kernel's backward is three times slower at 128 |
| CUDA | one variable-length flash call over the whole batch |
| dropout of probabilities above 0 | plain products, group by group, on any device |

Letters: N tokens, H hidden, A heads, D = H / A, T a sequence's length, b sequences of equal length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.nn.sequences import Group, Sequences

# Scores of one block fill at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21
# Neighbours share a block while its places are at most so many times its tokens, and some more: of
# short sequences another block costs more than empty places.
NEAR, SPARE = 1.2, 256


class SelfAttention(nn.Module):
    """Every token of a sequence attends to every token of it, in A heads."""

    def __init__(self, hidden_size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor, sequences: Sequences, places: Tensor | None = None) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or of the tokens at `places` `[R]` alone: `[R, H]`"""
        dropout = self.dropout if self.training else 0.0
        context = attend(self.qkv(x), self.heads, sequences, dropout)
        if places is not None:
            context = context.index_select(0, places)
        output: Tensor = self.output(context)
        return output

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> Tensor:
        """How much each token of one sequence attends to each; no fast path keeps these.

        x `[T, H]` (what the layer reads) -> `[A, T, T]` float32, whose rows sum to 1.
        """
        qkv = self.qkv(x.to(self.qkv.weight)).float()
        q, k, _ = qkv.view(len(x), 3, self.heads, -1).permute(1, 2, 0, 3)  # [A, T, D]
        found: Tensor = (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1)
        return found


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
    blocks = sequences.once(("blocks", heads), lambda: _blocks(sequences, heads))
    return BlockAttention.apply(qkv, heads, blocks)  # type: ignore[no-any-return, no-untyped-call]


def _attend_plainly(qkv: Tensor, heads: int, group: Group, dropout: float) -> Tensor:
    """Attention of one group with dropped probabilities: `[b T, 3 H]` -> `[b T, H]`."""
    q, k, v = _split(qkv, heads, group)
    probabilities = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    context = F.dropout(probabilities, dropout) @ v  # [b A, T, D]
    return _join(context, heads, group)


def _attend_varlen(qkv: Tensor, heads: int, sequences: Sequences) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = qkv.view(sequences.total, 3, heads, -1).unbind(1)  # [N, A, D] each
    offsets, longest = sequences.cu_seqlens, sequences.longest
    context = varlen_attn(q, k, v, offsets, offsets, longest, longest)
    assert isinstance(context, Tensor)
    return context.reshape(sequences.total, -1)


def _split(qkv: Tensor, heads: int, block: Group) -> tuple[Tensor, Tensor, Tensor]:
    """`[b T, 3 H]` -> three of `[b A, T, D]`."""
    rows = qkv.view(block.count, block.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    q, k, v = rows.reshape(3, block.count * heads, block.length, -1).unbind(0)
    return q, k, v


def _join(context: Tensor, heads: int, block: Group) -> Tensor:
    """`[b A, T, D]` -> `[b T, H]`."""
    rows = context.view(block.count, heads, block.length, -1).transpose(1, 2)
    return rows.reshape(block.count * block.length, -1)


@dataclass(frozen=True)
class Block:
    """Neighbouring sequences that go through one product, as rows of the longest one's length."""

    group: Group
    """From the first token to the last; `length` is the longest one's."""
    source: Tensor | None = None
    """[b T]: which token, from the group's first, stands in each place; None: all are as long."""
    target: Tensor | None = None
    """[tokens]: the place of each token."""
    bias: Tensor | None = None
    """[b A, 1, T]: 0 where a token stands, -inf elsewhere: nothing attends there."""

    @property
    def tokens(self) -> slice:
        """Where the tokens are in the batch."""
        return slice(self.group.start, self.group.stop)

    def spread(self, x: Tensor) -> Tensor:
        """`[tokens, W]` -> `[b T, W]`; what stands in empty places does not matter."""
        return x if self.source is None else x.index_select(0, self.source)

    def gather(self, x: Tensor) -> Tensor:
        """`[b T, W]` -> `[tokens, W]`"""
        return x if self.target is None else x.index_select(0, self.target)


def _blocks(sequences: Sequences, heads: int) -> list[Block]:
    """Neighbours of nearly equal lengths, so many that a block's scores stay in cache."""
    blocks = []
    first = 0
    lengths, offsets = sequences.lengths, sequences.offsets
    while first < len(lengths):
        longest = lengths[first]
        most = max(1, BLOCK // (heads * longest * longest))
        last = first + 1
        tokens = longest
        while (
            last < len(lengths)
            and last - first < most
            and lengths[last] <= longest
            and longest * (last - first + 1) <= NEAR * (tokens + lengths[last]) + SPARE
        ):
            tokens += lengths[last]
            last += 1
        group = Group(offsets[first], offsets[last], last - first, longest)
        blocks.append(_block(group, lengths[first:last], heads, sequences.device))
        first = last
    return blocks


def _block(group: Group, lengths: list[int], heads: int, device: torch.device) -> Block:
    """The block of a group whose sequences have these lengths."""
    if min(lengths) == group.length:
        return Block(group)
    each = torch.tensor(lengths)
    stands = torch.arange(group.length) < each[:, None]  # [b, T]
    target = stands.flatten().nonzero()[:, 0]
    source = torch.zeros(group.count * group.length, dtype=torch.long)
    source[target] = torch.arange(len(target))
    bias = torch.zeros(stands.shape).masked_fill_(~stands, -torch.inf)
    bias = bias[:, None, None].expand(-1, heads, -1, -1).reshape(group.count * heads, 1, -1)
    return Block(group, source.to(device), target.to(device), bias.to(device))


def _attend_by_block(qkv: Tensor, heads: int, blocks: list[Block]) -> tuple[Tensor, list[Tensor]]:
    """qkv `[N, 3 H]` -> `[N, H]`, and the probabilities of each block."""
    context = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
    kept = []
    for block in blocks:
        q, k, v = _split(block.spread(qkv[block.tokens]), heads, block.group)
        q = q * q.shape[-1] ** -0.5
        if block.bias is None:
            scores = torch.bmm(q, k.transpose(1, 2))  # [b A, T, T]
        else:
            scores = torch.baddbmm(block.bias.to(q.dtype), q, k.transpose(1, 2))
        p = scores.softmax(-1)
        rows = _join(torch.bmm(p, v), heads, block.group)
        context[block.tokens] = block.gather(rows)
        kept.append(p)
    return context, kept


class BlockAttention(torch.autograd.Function):
    """Attention block by block, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int, blocks: list[Block]) -> Tensor:
        """qkv `[N, 3 H]` -> `[N, H]`"""
        context, kept = _attend_by_block(qkv, heads, blocks)
        if ctx.needs_input_grad[0]:
            ctx.heads, ctx.blocks = heads, blocks
            ctx.save_for_backward(qkv, *kept)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """gradient `[N, H]` -> gradient of qkv `[N, 3 H]`"""
        qkv, *kept = ctx.saved_tensors
        heads = ctx.heads
        if torch.is_grad_enabled():  # it is differentiated itself: probabilities must have a graph
            context, _ = _attend_by_block(qkv, heads, ctx.blocks)
            return *torch.autograd.grad(context, qkv, gradient, create_graph=True), None, None
        d_qkv = torch.empty_like(qkv)
        for block, p in zip(ctx.blocks, kept, strict=True):
            group = block.group
            q, k, v = _split(block.spread(qkv[block.tokens]), heads, group)
            d_rows = gradient[block.tokens]
            if block.target is not None:  # no gradient comes from empty places
                full = d_rows.new_zeros(group.count * group.length, d_rows.shape[1])
                d_rows = full.index_copy_(0, block.target, d_rows)
            shape = (group.count, group.length, heads, -1)
            d_context = d_rows.view(shape).transpose(1, 2).reshape(v.shape)
            d_p = torch.bmm(d_context, v.transpose(1, 2))
            d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
            scale = q.shape[-1] ** -0.5
            whole = d_qkv[block.tokens]
            if block.target is not None:
                whole = d_qkv.new_empty(group.count * group.length, d_qkv.shape[1])
            out = whole.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            split = (group.count, heads, group.length, -1)
            out[0] = torch.bmm(d_s, k * scale).view(split)
            out[1] = torch.bmm(d_s.transpose(1, 2), q * scale).view(split)
            out[2] = torch.bmm(p.transpose(1, 2), d_context).view(split)
            if block.target is not None:
                d_qkv[block.tokens] = block.gather(whole)
        return d_qkv, None, None
