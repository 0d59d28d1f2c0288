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
        sequences have a prefix, or heads are not of a width that it takes |
| dropout of probabilities above 0 | plain products: on a CPU by groups of equal length, on CUDA by
        blocks, since the variable-length call has no dropout |

Letters: N queries, M keys, H hidden, A heads, D = H / A, T and S tokens of a sequence of queries
and of its keys, b sequences in a block.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.nn.dropout import drop
from bertwright.nn.host import send
from bertwright.nn.sequences import Group, Sequences

# Scores of one block fill at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21
# Neighbours share a block while its rows are at most NEAR times its tokens, and SPARE more: of
# short sequences another block costs more than padding rows.
NEAR, SPARE = 1.2, 256
# On a GPU launching a kernel costs more than padding rows, and no cache has to hold the scores.
GPU_BLOCK, GPU_NEAR, GPU_SPARE = 1 << 27, 1.5, 4096
FLASH_WIDTH = 256
"""The widest head that the variable-length kernel takes."""


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
        bias = row_bias([len(x)], [len(x)], 1, causal=self.causal)
        return _weights(q, k, None if bias is None else bias.to(x.device))


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
    parts = [x[:, None] for x in (q, k, v)]
    return _attend(parts, queries, keys, causal, dropout)


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
    parts = [qkv.view(sequences.total, 3, heads, -1)]
    return _attend(parts, sequences, sequences, causal, dropout)


def _attend(
    parts: list[Tensor], queries: Sequences, keys: Sequences, causal: bool, dropout: float
) -> Tensor:
    """Queries, keys and values, `[N, n, A, D]` each, side by side or apart -> `[N, A D]`"""
    q, k, v = (x for part in parts for x in part.unbind(1))
    prefixed = queries is keys and queries.prefixes is not None and not causal
    if dropout > 0:
        blocks = _blocks_of(queries, keys, q.shape[1], causal, exact=not q.is_cuda)
        return _attend_by_block(q, k, v, blocks, dropout)[0]
    if takes_flash(q) and not prefixed:
        return _attend_varlen(q, k, v, queries, keys, causal)
    blocks = _blocks_of(queries, keys, q.shape[1], causal)
    return BlockAttention.apply(blocks, *parts)  # type: ignore[no-any-return, no-untyped-call]


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

    def take(self, x: Tensor) -> Tensor:
        """`[N, A, D]` -> `[b A, T, D]`; values of padding rows do not matter."""
        own = x[self.tokens]
        return self._by_head(own if self.source is None else own.index_select(0, self.source))

    def take_gradient(self, x: Tensor) -> Tensor:
        """`[N, A, D]` -> `[b A, T, D]`, 0 in padding rows."""
        own = x[self.tokens]
        if self.target is not None:
            full = x.new_zeros(self.group.count * self.group.length, *x.shape[1:])
            own = full.index_copy_(0, self.target, own)
        return self._by_head(own)

    def put(self, x: Tensor, whole: Tensor) -> None:
        """`[b A, T, D]` into `[N, A, D]`"""
        rows = x.view(self.group.count, -1, *x.shape[1:]).transpose(1, 2)
        if self.target is None:
            whole[self.tokens].view(rows.shape).copy_(rows)
        else:
            whole[self.tokens] = rows.flatten(0, 1).index_select(0, self.target)

    def _by_head(self, rows: Tensor) -> Tensor:
        """`[b T, A, D]` -> `[b A, T, D]`"""
        return rows.view(self.group.count, -1, *rows.shape[1:]).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class Block:
    """Neighbouring sequences whose scores are one product."""

    queries: Rows
    keys: Rows
    """The same as `queries` where sequences attend to themselves."""
    bias: Tensor | None = None
    """[b A, 1, S], [1, T, S] or [b A, T, S]: 0 where a query sees a key, -inf elsewhere; None:
    every query sees every key."""


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
    if exact:
        limits = sys.maxsize, 1.0, 0
    elif queries.device.type == "cuda":
        limits = GPU_BLOCK // heads, GPU_NEAR, GPU_SPARE
    else:
        limits = BLOCK // heads, NEAR, SPARE
    runs = neighbours(queries.lengths, keys.lengths, *limits)
    prefixes = queries.prefixes if queries is keys and not causal else None
    blocks = []
    for run in runs:
        own, theirs = queries.lengths[run], keys.lengths[run]
        rows = _make_rows(queries, run)
        of_keys = rows if keys is queries else _make_rows(keys, run)
        bias = row_bias(own, theirs, heads, causal, prefixes and prefixes[run])
        blocks.append(Block(rows, of_keys, None if bias is None else send(bias, queries.device)))
    return blocks


def neighbours(
    own: list[int], theirs: list[int], most: int, near: float, spare: int
) -> Iterator[slice]:
    """Runs of neighbours that are computed together, as rows of their longest.

    Args:
        own: queries of each.
        theirs: keys of each.
        most: scores of a run.
        near: places of its rows over its tokens, of queries and of keys alike.
        spare: places that it may have beside.
    """
    first = 0
    while first < len(own):
        last = first + 1
        longest, widest = own[first], theirs[first]
        tokens, their_tokens = longest, widest
        while last < len(own):
            rows = last - first + 1
            longer, wider = max(longest, own[last]), max(widest, theirs[last])
            more, their_more = tokens + own[last], their_tokens + theirs[last]
            fits = rows * longer * wider <= most and rows * longer <= near * more + spare
            if not fits or rows * wider > near * their_more + spare:
                break
            longest, widest, tokens, their_tokens = longer, wider, more, their_more
            last += 1
        yield slice(first, last)
        first = last


def _make_rows(sequences: Sequences, run: slice) -> Rows:
    lengths, offsets = sequences.lengths[run], sequences.offsets
    group = Group(offsets[run.start], offsets[run.stop], len(lengths), max(lengths))
    if min(lengths) == group.length:
        return Rows(group)
    real = torch.arange(group.length) < torch.tensor(lengths)[:, None]  # [b, T]
    target = real.flatten().nonzero()[:, 0]
    source = torch.zeros(group.count * group.length, dtype=torch.long)
    source[target] = torch.arange(len(target))
    return Rows(group, send(source, sequences.device), send(target, sequences.device))


def row_bias(
    own: list[int],
    theirs: list[int],
    heads: int,
    causal: bool = False,
    prefixes: list[int] | None = None,
) -> Tensor | None:
    """The bias of a block of rows with these numbers of queries and of keys; see `Block`."""
    counts = torch.tensor(theirs)[:, None, None]
    last = counts - 1  # key that a query sees, [b, T or 1, 1]
    if causal or prefixes is not None:
        before = counts - torch.tensor(own)[:, None, None]
        if before.min() < 0:
            raise ValueError("causal attention with more queries than keys in a sequence")
        if prefixes is None and before.min() == before.max():
            before = before[:1]  # padding keys come after all that a real query sees
        last = before + torch.arange(max(own))[:, None]
        if prefixes is not None:
            last = last.maximum(torch.tensor(prefixes)[:, None, None] - 1)
    elif min(theirs) == max(theirs):
        return None
    hidden = torch.arange(max(theirs)) > last
    bias = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    return bias if len(bias) == 1 else bias.repeat_interleave(heads, 0)


def attend_rows(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attention over rows of one length, as where keys are kept.

    Plain products: of a query or few a fused kernel takes up to six times as long on a CPU. Of one
    query each the product of the keys with it is twice as fast in bfloat16 there.

    q `[B, A, T, D]`, k and v `[B, A, S, D]`, bias as scores `[B, A, T, S]` -> `[B, T, A D]`
    """
    shape = q.shape
    q, k, v = (x.flatten(0, 1) for x in (q * shape[3] ** -0.5, k, v))
    if q.dtype == torch.bfloat16 and not q.is_cuda and shape[2] == 1:
        scores = torch.bmm(k, q.transpose(1, 2)).transpose(1, 2)
    else:
        scores = torch.bmm(q, k.transpose(1, 2))
    if bias is not None:
        scores = (scores.view(*shape[:3], -1) + bias).flatten(0, 1)
    return torch.bmm(scores.softmax(2), v).view(shape).transpose(1, 2).flatten(2)


def heads_of(x: Tensor, heads: int, parts: int) -> list[Tensor]:
    """`[B, T, parts H]`, of queries, keys or values side by side -> `[B, A, T, D]` each"""
    rows = x.view(x.shape[0], x.shape[1], parts, heads, -1)
    return list(rows.permute(2, 0, 3, 1, 4).unbind(0))


def _scaled(x: Tensor, y: Tensor, scale: float, bias: Tensor | None = None) -> Tensor:
    """`scale x y + bias`, of batches of matrices."""
    some = x.new_empty(1, 1, 1) if bias is None else bias
    return torch.baddbmm(some, x, y, beta=0 if bias is None else 1, alpha=scale)


def _attend_by_block(
    q: Tensor, k: Tensor, v: Tensor, blocks: list[Block], dropout: float = 0.0
) -> tuple[Tensor, list[Tensor]]:
    """q `[N, A, D]`, k and v `[M, A, D]` -> `[N, A D]`, and the probabilities of each block."""
    context, kept, scale = q.new_empty(q.shape), [], q.shape[-1] ** -0.5
    for block in blocks:
        own, key = block.queries.take(q), block.keys.take(k).transpose(1, 2)
        scores = _scaled(own, key, scale, None if block.bias is None else block.bias.to(q.dtype))
        p = scores.softmax(-1)
        p = drop(p, dropout) if dropout > 0 else p
        block.queries.put(torch.bmm(p, block.keys.take(v)), context)
        kept.append(p)
    return context.flatten(1), kept


class BlockAttention(torch.autograd.Function):
    """Attention block by block, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, blocks: list[Block], *parts: Tensor) -> Tensor:
        """Queries, keys and values as `_attend` has them -> `[N, A D]`"""
        q, k, v = (x for part in parts for x in part.unbind(1))
        context, kept = _attend_by_block(q, k, v, blocks)
        if any(ctx.needs_input_grad):
            ctx.blocks, ctx.parts = blocks, len(parts)
            ctx.save_for_backward(*parts, *kept)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """gradient `[N, A D]` -> those of the parts"""
        parts, kept = ctx.saved_tensors[: ctx.parts], ctx.saved_tensors[ctx.parts :]
        q, k, v = (x for part in parts for x in part.unbind(1))
        if torch.is_grad_enabled():  # it is differentiated itself: probabilities must have a graph
            context, _ = _attend_by_block(q, k, v, ctx.blocks)
            wanted = [part for part in parts if part.requires_grad]
            found = iter(torch.autograd.grad(context, wanted, gradient, create_graph=True))
            return None, *(next(found) if part.requires_grad else None for part in parts)
        gradients = [x.new_empty(x.shape) for x in parts]
        d_q, d_k, d_v = (x for part in gradients for x in part.unbind(1))
        upstream, scale = gradient.view(q.shape), q.shape[-1] ** -0.5
        for block, p in zip(ctx.blocks, kept, strict=True):
            queries, keys = block.queries, block.keys
            d_context = queries.take_gradient(upstream)
            d_p = torch.bmm(d_context, keys.take(v).transpose(1, 2))
            d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
            queries.put(_scaled(d_s, keys.take(k), scale), d_q)
            d_s, p = d_s.transpose(1, 2), p.transpose(1, 2)
            keys.put(_scaled(d_s, queries.take(q), scale), d_k)
            keys.put(torch.bmm(p, d_context), d_v)
        return None, *gradients


def takes_flash(q: Tensor) -> bool:
    """Whether the variable-length kernel takes queries `[N, A, D]`: fp16 or bf16 on a GPU of
    compute capability 8.0 and up, D a multiple of 8 up to 256."""
    if not q.is_cuda or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    return q.shape[2] % 8 == 0 and q.shape[2] <= FLASH_WIDTH and _has_flash(q.device)


@cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0) and torch.version.cuda is not None


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
