"""Attention over sequences laid end to end; nothing attends across the end of a sequence.

Vaswani et al. 2017, section 3.2: `softmax(Q K^T / sqrt(D)) V` in each of A heads; bidirectional, or
causal: a query sees the keys up to its own position, positions counted back from each sequence's
end (so one new query over a cache of keys sees all of them); or to the source both ways and to the
target causally (`Sequences.prefixes`).

| where | how |
|---|---|
| CPU | neighbours of equal or nearly equal length go through one batched product; its gradient is
        written out, because the fused kernel's backward is three times slower at 128 |
| CUDA, bf16 and fp16 | one variable-length flash call over the whole batch; blocks where
        sequences have a prefix |
| dropout of probabilities above 0 | plain products, group by group, on any device |

Letters: N queries, M keys, H hidden, A heads, D = H / A, T and S tokens of a sequence of queries
and of its keys, b sequences in a block.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.nn.dropout import drop
from bertwright.nn.sequences import Group, Sequences

# Scores of one block fill at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21
# Neighbours share a block while its rows are at most NEAR times its tokens, and SPARE more: of
# short sequences another block costs more than padding rows.
NEAR, SPARE = 1.2, 256


Attend = Callable[[Tensor], Tensor]
"""qkv `[N, 3 H]` -> context `[N, H]`: what stands for attention where keys are kept."""


class SelfAttention(nn.Module):
    """Every token of a sequence attends to every token of it, or causally, in A heads."""

    def __init__(
        self, hidden_size: int, heads: int, dropout: float = 0.0, causal: bool = False
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(
        self,
        x: Tensor,
        sequences: Sequences,
        positions: Tensor | None = None,
        attend: Attend | None = None,
    ) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or at `positions` `[R]` alone: `[R, H]`

        `attend` stands for the attention of the sequences to themselves (`nn/cache.py`).
        """
        dropout = self.dropout if self.training else 0.0
        qkv = self.qkv(x)
        context = (
            attend_packed(qkv, self.heads, sequences, causal=self.causal, dropout=dropout)
            if attend is None
            else attend(qkv)
        )
        if positions is not None:
            context = context.index_select(0, positions)
        output: Tensor = self.output(context)
        return output

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> Tensor:
        """How much each token of one sequence attends to each; no fast path keeps these.

        x `[T, H]` (what the layer reads) -> `[A, T, T]` float32, whose rows sum to 1.
        """
        qkv = self.qkv(x.to(self.qkv.weight)).float()
        q, k, _ = qkv.view(len(x), 3, self.heads, -1).unbind(1)  # [T, A, D]
        return _weights(q, k, _causal_bias(len(x), len(x), 0, x.device) if self.causal else None)


class CrossAttention(nn.Module):
    """Tokens of one set of sequences attend to those of another (a decoder to its encoder)."""

    def __init__(
        self, hidden_size: int, heads: int, dropout: float = 0.0, key_size: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key_value = nn.Linear(key_size or hidden_size, 2 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """memory `[M, H]` -> keys and values, `[M, A, D]` each; a decoder computes them once."""
        k, v = self.key_value(memory).view(len(memory), 2, self.heads, -1).unbind(1)
        return k, v

    @torch.no_grad()
    def probabilities(self, x: Tensor, memory: Tensor) -> Tensor:
        """How much each token of one sequence attends to each of the other.

        x `[T, H]`, memory `[S, H]` -> `[A, T, S]` float32, whose rows sum to 1.
        """
        q = self.query(x).view(len(x), self.heads, -1)
        return _weights(q.float(), self.keys_values(memory)[0].float())

    def forward(self, x: Tensor, queries: Sequences, memory: Tensor, keys: Sequences) -> Tensor:
        """x `[N, H]`, memory `[M, H]` -> `[N, H]`; sequence i of `queries` reads i of `keys`."""
        q = self.query(x).view(len(x), self.heads, -1)
        dropout = self.dropout if self.training else 0.0
        k, v = self.keys_values(memory)
        output: Tensor = self.output(attend(q, k, v, queries, keys, dropout=dropout))
        return output


def _weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """q `[T, A, D]`, k `[S, A, D]` -> `[A, T, S]`"""
    scores = q.transpose(0, 1) @ k.permute(1, 2, 0) * q.shape[-1] ** -0.5
    found: Tensor = (scores if bias is None else scores + bias).softmax(-1)
    return found


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of each sequence of queries over its own sequence of keys.

    Args:
        q: `[N, A, D]`.
        k: `[M, A, D]`.
        v: `[M, A, D]`.
        queries: B lengths that sum to N.
        keys: B lengths that sum to M.
        causal: query i of T sees keys up to S - T + i.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, A D]`, the heads side by side.

    Raises:
        ValueError: other numbers of sequences, or causal with more queries than keys.
    """
    if queries.count != keys.count:
        raise ValueError(f"{queries.count} sequences of queries, but {keys.count} of keys")
    heads = q.shape[1]
    if dropout > 0:
        found = [
            _dropped(_rows(q, b.queries), _rows(k, b.keys), _rows(v, b.keys), b, heads, dropout)
            for b in _blocks_of(queries, keys, heads, causal, exact=True)
        ]
        return torch.cat(found)
    if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16):
        return _attend_varlen(q, k, v, queries, keys, causal)
    blocks = _blocks_of(queries, keys, heads, causal)
    return BlockAttention.apply(q, k, v, blocks)  # type: ignore[no-any-return, no-untyped-call]


def attend_packed(
    qkv: Tensor,
    heads: int,
    sequences: Sequences,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` of sequences to themselves, from queries, keys and values side by side.

    Args:
        qkv: `[N, 3 H]`, each row query, key and value, each A heads of D.
        heads: A.
        sequences: B lengths that sum to N.
        causal: whether a token sees only those up to itself.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, H]`, the heads side by side.
    """
    if dropout > 0:
        blocks = _blocks_of(sequences, sequences, heads, causal, exact=True)
        found = [
            _dropped(*_split(qkv[b.queries.tokens], heads, b.queries.group), b, heads, dropout)
            for b in blocks
        ]
        return torch.cat(found)
    whole = causal or sequences.prefixes is None
    if whole and qkv.is_cuda and qkv.dtype in (torch.float16, torch.bfloat16):
        q, k, v = qkv.view(sequences.total, 3, heads, -1).unbind(1)  # [N, A, D] each
        return _attend_varlen(q, k, v, sequences, sequences, causal)
    blocks = _blocks_of(sequences, sequences, heads, causal)
    return PackedAttention.apply(qkv, heads, blocks)  # type: ignore[no-any-return, no-untyped-call]


@dataclass(frozen=True)
class Rows:
    """Neighbouring sequences as rows of the longest one's length, the rest of a row is padding."""

    group: Group
    """From the first token to the last; `length` is the longest one's."""
    source: Tensor | None = None
    """[b T]: the token of each row, from the group's first; None: all are as long."""
    target: Tensor | None = None
    """[tokens]: the row of each token."""

    @property
    def tokens(self) -> slice:
        """Where the tokens are in the batch."""
        return slice(self.group.start, self.group.stop)

    def spread(self, x: Tensor) -> Tensor:
        """`[tokens, ...]` -> `[b T, ...]`; values of padding rows do not matter."""
        return x if self.source is None else x.index_select(0, self.source)

    def gather(self, x: Tensor) -> Tensor:
        """`[b T, ...]` -> `[tokens, ...]`"""
        return x if self.target is None else x.index_select(0, self.target)

    def spread_gradient(self, x: Tensor) -> Tensor:
        """`[tokens, ...]` -> `[b T, ...]`, 0 in padding rows."""
        if self.target is None:
            return x
        full = x.new_zeros(self.group.count * self.group.length, *x.shape[1:])
        return full.index_copy_(0, self.target, x)


@dataclass(frozen=True)
class Block:
    """Neighbouring sequences whose scores are one product."""

    queries: Rows
    keys: Rows
    """The same as `queries` where sequences attend to themselves."""
    bias: Tensor | None = None
    """[b A, 1, S], [T, S] or [b A, T, S]: 0 where a query sees a key, -inf elsewhere; None: every
    query sees every key."""


def _blocks_of(
    queries: Sequences, keys: Sequences, heads: int, causal: bool, exact: bool = False
) -> list[Block]:
    """The blocks of a batch, made once for all layers."""
    key = ("blocks", heads, causal, exact, id(keys))
    made = queries.once(key, lambda: (keys, _blocks(queries, keys, heads, causal, exact)))
    return made[1]  # beside the keys, whose id stays theirs as long as they are kept


def _blocks(
    queries: Sequences, keys: Sequences, heads: int, causal: bool, exact: bool
) -> list[Block]:
    """Neighbours of nearly equal lengths, as many as keep a block's scores in cache; `exact`: of
    equal lengths, however many."""
    near, spare = (1.0, 0) if exact else (NEAR, SPARE)
    most = sys.maxsize if exact else BLOCK // heads
    blocks = []
    first, count = 0, queries.count
    own, theirs = queries.lengths, keys.lengths
    while first < count:
        last = first + 1
        longest, widest = own[first], theirs[first]
        tokens, their_tokens = longest, widest
        while last < count:
            rows = last - first + 1
            longer, wider = max(longest, own[last]), max(widest, theirs[last])
            more, their_more = tokens + own[last], their_tokens + theirs[last]
            fits = rows * longer * wider <= most and rows * longer <= near * more + spare
            if not fits or rows * wider > near * their_more + spare:
                break
            longest, widest, tokens, their_tokens = longer, wider, more, their_more
            last += 1
        rows_of = _make_rows(queries, first, last)
        of_keys = rows_of if keys is queries else _make_rows(keys, first, last)
        if queries.prefixes is None or causal or queries is not keys:
            bias = _bias(own[first:last], theirs[first:last], heads, causal, queries.device)
        else:
            bias = _prefix_bias(queries.prefixes[first:last], longest, heads, queries.device)
        blocks.append(Block(rows_of, of_keys, bias))
        first = last
    return blocks


def _make_rows(sequences: Sequences, first: int, last: int) -> Rows:
    """Sequences `first` to `last` as rows."""
    lengths, offsets = sequences.lengths[first:last], sequences.offsets
    group = Group(offsets[first], offsets[last], last - first, max(lengths))
    if min(lengths) == group.length:
        return Rows(group)
    real = torch.arange(group.length) < torch.tensor(lengths)[:, None]  # [b, T]
    target = real.flatten().nonzero()[:, 0]
    source = torch.zeros(group.count * group.length, dtype=torch.long)
    source[target] = torch.arange(len(target))
    return Rows(group, source.to(sequences.device), target.to(sequences.device))


def _bias(
    own: list[int], theirs: list[int], heads: int, causal: bool, device: torch.device
) -> Tensor | None:
    """The bias of a block; see `Block`."""
    longest, widest = max(own), max(theirs)
    if not causal:
        if min(theirs) == widest:
            return None
        real = torch.arange(widest) < torch.tensor(theirs)[:, None]  # [b, S]
        bias = torch.zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None]  # [b, 1, S]
        return bias.repeat_interleave(heads, 0).to(device)
    before = [s - t for t, s in zip(own, theirs, strict=True)]
    if min(before) < 0:
        raise ValueError("causal attention with more queries than keys in a sequence")
    if min(before) == max(before):  # padding keys come after all that a real query sees
        return _causal_bias(longest, widest, before[0], device)
    each = [_causal_bias(longest, widest, shift, device) for shift in before]
    return torch.stack(each).repeat_interleave(heads, 0)


def _prefix_bias(prefixes: list[int], longest: int, heads: int, device: torch.device) -> Tensor:
    """`[b A, T, T]`: a query sees the prefix of its sequence and the keys up to itself."""
    causal = _causal_bias(longest, longest, 0, torch.device("cpu"))
    bias = causal.repeat(len(prefixes), 1, 1)  # [b, T, T]
    inside = torch.arange(longest) < torch.tensor(prefixes)[:, None]  # [b, T]
    bias.masked_fill_(inside[:, None], 0.0)
    return bias.repeat_interleave(heads, 0).to(device)


def _causal_bias(longest: int, widest: int, before: int, device: torch.device) -> Tensor:
    """`[T, S]`: query i sees keys up to `before` + i."""
    return torch.full((longest, widest), -torch.inf).triu_(before + 1).to(device)


def _split(qkv: Tensor, heads: int, group: Group) -> tuple[Tensor, Tensor, Tensor]:
    """`[b T, 3 H]` -> three of `[b A, T, D]`."""
    rows = qkv.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    q, k, v = rows.reshape(3, group.count * heads, group.length, -1).unbind(0)
    return q, k, v


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    """q `[b, n, D]`, k `[b, S, D]` -> `[b, n, S]`

    Of one query each the product of the keys with it is twice as fast in bfloat16 on a CPU.
    """
    if q.shape[1] == 1 and q.dtype == torch.bfloat16 and not q.is_cuda:
        return torch.bmm(k, q.transpose(1, 2)).transpose(1, 2)
    return torch.bmm(q, k.transpose(1, 2))


def _rows(x: Tensor, rows: Rows) -> Tensor:
    """`[N, A, D]` -> `[b A, T, D]`, those of a block."""
    group, heads = rows.group, x.shape[1]
    spread = rows.spread(x[rows.tokens]).view(group.count, group.length, heads, -1)
    return spread.transpose(1, 2).reshape(group.count * heads, group.length, -1)


def _join(context: Tensor, heads: int, group: Group) -> Tensor:
    """`[b A, T, D]` -> `[b T, H]`."""
    rows = context.view(group.count, heads, group.length, -1).transpose(1, 2)
    return rows.reshape(group.count * group.length, -1)


def _probabilities(q: Tensor, k: Tensor, block: Block) -> Tensor:
    """q `[b A, T, D]`, k `[b A, S, D]` -> `[b A, T, S]`"""
    q = q * q.shape[-1] ** -0.5
    if block.bias is None:
        return torch.bmm(q, k.transpose(1, 2)).softmax(-1)
    return torch.baddbmm(block.bias.to(q.dtype), q, k.transpose(1, 2)).softmax(-1)


def _dropped(q: Tensor, k: Tensor, v: Tensor, block: Block, heads: int, dropout: float) -> Tensor:
    """Attention of one block of equal lengths with dropped probabilities: `[b T, H]`."""
    context = drop(_probabilities(q, k, block), dropout) @ v  # [b A, T, D]
    return _join(context, heads, block.queries.group)


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, p: Tensor, d_context: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of queries, keys and values, from the probabilities and the context's gradient."""
    d_p = torch.bmm(d_context, v.transpose(1, 2))
    d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
    scale = q.shape[-1] ** -0.5
    d_q = torch.bmm(d_s, k * scale)
    d_k = torch.bmm(d_s.transpose(1, 2), q * scale)
    return d_q, d_k, torch.bmm(p.transpose(1, 2), d_context)


def _attend_by_block(qkv: Tensor, heads: int, blocks: list[Block]) -> tuple[Tensor, list[Tensor]]:
    """qkv `[N, 3 H]` -> `[N, H]`, and the probabilities of each block."""
    context = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
    kept = []
    for block in blocks:
        rows = block.queries
        q, k, v = _split(rows.spread(qkv[rows.tokens]), heads, rows.group)
        p = _probabilities(q, k, block)
        context[rows.tokens] = rows.gather(_join(torch.bmm(p, v), heads, rows.group))
        kept.append(p)
    return context, kept


class PackedAttention(torch.autograd.Function):
    """Self-attention block by block, with its gradient written out."""

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
            rows = block.queries
            group = rows.group
            q, k, v = _split(rows.spread(qkv[rows.tokens]), heads, group)
            d_rows = rows.spread_gradient(gradient[rows.tokens])
            shape = (group.count, group.length, heads, -1)
            d_context = d_rows.view(shape).transpose(1, 2).reshape(v.shape)
            whole = d_qkv[rows.tokens]
            if rows.target is not None:
                whole = d_qkv.new_empty(group.count * group.length, d_qkv.shape[1])
            out = whole.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            for number, each in enumerate(_gradients(q, k, v, p, d_context)):
                out[number] = each.view(group.count, heads, group.length, -1)
            if rows.target is not None:
                d_qkv[rows.tokens] = rows.gather(whole)
        return d_qkv, None, None


def _attend_apart(
    q: Tensor, k: Tensor, v: Tensor, blocks: list[Block]
) -> tuple[Tensor, list[Tensor]]:
    """q `[N, A, D]`, k and v `[M, A, D]` -> `[N, A D]`, and the probabilities of each block."""
    heads = q.shape[1]
    context = q.new_empty(q.shape[0], heads * v.shape[2])
    kept = []
    for block in blocks:
        rows = block.queries
        p = _probabilities(_rows(q, rows), _rows(k, block.keys), block)
        found = _join(torch.bmm(p, _rows(v, block.keys)), heads, rows.group)
        context[rows.tokens] = rows.gather(found)
        kept.append(p)
    return context, kept


class BlockAttention(torch.autograd.Function):
    """Attention of queries over keys that are apart, block by block, its gradient written out."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, blocks: list[Block]) -> Tensor:
        """q `[N, A, D]`, k and v `[M, A, D]` -> `[N, A D]`"""
        context, kept = _attend_apart(q, k, v, blocks)
        if any(ctx.needs_input_grad[:3]):
            ctx.blocks = blocks
            ctx.save_for_backward(q, k, v, *kept)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """gradient `[N, A D]` -> gradients of q, k and v"""
        q, k, v, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():
            context, _ = _attend_apart(q, k, v, ctx.blocks)
            inputs = [x for x in (q, k, v) if x.requires_grad]
            found = iter(torch.autograd.grad(context, inputs, gradient, create_graph=True))
            return *(next(found) if x.requires_grad else None for x in (q, k, v)), None
        d_q, d_k, d_v = (
            torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)
        )
        upstream = gradient.view(len(q), q.shape[1], -1)
        for block, p in zip(ctx.blocks, kept, strict=True):
            queries, keys = block.queries, block.keys
            padded = queries.spread_gradient(upstream[queries.tokens])
            group, heads = queries.group, q.shape[1]
            d_context = padded.view(group.count, group.length, heads, -1).transpose(1, 2)
            d_context = d_context.reshape(group.count * heads, group.length, -1)
            parts = _gradients(_rows(q, queries), _rows(k, keys), _rows(v, keys), p, d_context)
            for whole, part, rows in zip(
                (d_q, d_k, d_v), parts, (queries, keys, keys), strict=True
            ):
                joined = rows.gather(_join(part, heads, rows.group))
                whole[rows.tokens] = joined.view(-1, heads, whole.shape[2])
        return d_q, d_k, d_v, None


def _attend_varlen(
    q: Tensor, k: Tensor, v: Tensor, queries: Sequences, keys: Sequences, causal: bool
) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    context = varlen_attn(
        q,
        k,
        v,
        queries.cu_seqlens,
        keys.cu_seqlens,
        queries.longest,
        keys.longest,
        **(_causal_argument() if causal else {}),
    )
    assert isinstance(context, Tensor)
    return context.reshape(queries.total, -1)


@cache
def _causal_argument() -> dict[str, Any]:
    """How `varlen_attn` of this torch is made causal: by a window, in older ones by a flag."""
    from torch.nn.attention.varlen import varlen_attn

    windows = "window_size" in inspect.signature(varlen_attn).parameters
    return {"window_size": (-1, 0)} if windows else {"is_causal": True}
