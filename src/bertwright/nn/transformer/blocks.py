"""Attention block by block, in products of padded rows: on a CPU, and on a GPU where the
variable-length call does not take the batch.

A block is a run of consecutive sequences of nearly equal lengths, which are padded to the longest;
its scores are one batched product. The gradient is written out, because the backward pass of
PyTorch's fused kernel is three times as slow on a CPU at length 128. With dropout of probabilities,
autograd computes the gradient, and on a CPU a block holds sequences of equal lengths only, so that
no random number is drawn for padding.

Local attention over sequences much longer than its window is computed in chunks of queries, each
with the keys that they see, so that the cost grows with their length, not its square. Sequences
with a prefix are not split, because their window is also causal over the target.

Letters: those of `attention.py`, and b sequences in a block.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertwright.nn.host import send
from bertwright.nn.layers.dropout import drop
from bertwright.nn.sequences import Group, Sequences

# The scores of one block are at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21
# Consecutive sequences share a block while its padded rows are at most NEAR times its tokens plus
# SPARE: for short sequences, another block costs more than padding.
NEAR, SPARE = 1.2, 256
# On a GPU, launching a kernel costs more than padding rows, and no cache has to hold the scores.
GPU_BLOCK, GPU_NEAR, GPU_SPARE = 1 << 27, 1.5, 4096
CHUNKED = 4
"""Local attention is computed in chunks where a sequence is longer than this many times the reach
of its window to one side."""


def split(parts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values `[N, A, D]` of `SelfAttention.parts`."""
    q, k, v = (x for part in parts for x in part.unbind(1))
    return q, k, v


def attend_in_blocks(
    parts: list[Tensor],
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    reach: int | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """Compute attention by the products of this file; the arguments are those of `attend`."""
    window = None if reach is None else Window(reach)
    if reach is not None and _is_chunked(queries, reach, bias):
        chunks = queries.once(("chunks", reach), lambda: Chunks(queries, reach))
        q, k, v = split(parts)
        near = torch.stack([k, v], 1).index_select(0, chunks.rows)  # [M, 2, A, D]
        parts, queries, keys = [q[:, None], near], chunks.queries, chunks.keys
        window = Window(reach, chunks.before)
    q, k, v = split(parts)
    heads = q.shape[1]
    if dropout > 0:
        blocks = blocks_of(queries, keys, heads, causal, window, exact=not q.is_cuda)
        return _attend_by_block(q, k, v, blocks, dropout, bias)[0]
    blocks = blocks_of(queries, keys, heads, causal, window)
    context: Tensor = BlockAttention.apply(blocks, bias, *parts)  # type: ignore[no-untyped-call]
    return context


def _is_chunked(sequences: Sequences, reach: int, bias: Tensor | None) -> bool:
    """Return whether local attention is computed in chunks."""
    is_long = sequences.longest > CHUNKED * reach
    return is_long and sequences.prefixes is None and bias is None


@dataclass(frozen=True)
class Window:
    """The keys that a query sees in local attention."""

    reach: int
    """The largest distance of a key from its query, in tokens."""
    before: tuple[int, ...] = ()
    """`[B]`: the number of keys before the first query of each sequence; empty: 0 for all."""


class Chunks:
    """Sequences split into chunks of queries, each with the keys that its queries see."""

    def __init__(self, sequences: Sequences, reach: int) -> None:
        """Split sequences into chunks of `2 * reach` queries, with up to `reach` further keys on
        either side."""
        lengths, keys, before, rows = [], [], [], []
        for offset, length in zip(sequences.offsets, sequences.lengths, strict=False):
            for start in range(0, length, 2 * reach):
                stop = min(start + 2 * reach, length)
                low, high = max(0, start - reach), min(length, stop + reach)
                lengths.append(stop - start)
                keys.append(high - low)
                before.append(start - low)
                rows.append(torch.arange(offset + low, offset + high))
        self.queries = Sequences(lengths, sequences.device)
        self.keys = Sequences(keys, sequences.device)
        self.before = tuple(before)
        self.rows = send(torch.cat(rows), sequences.device)
        """`[M]`: the token of each key."""


@dataclass(frozen=True)
class PaddedRows:
    """Consecutive sequences as rows that are padded to the length of the longest."""

    group: Group
    """The tokens of the sequences; `length` is that of the longest."""
    source: Tensor | None = None
    """`[b T]`: the token at each padded position, counted from the group's first; None: all
    sequences have one length."""
    target: Tensor | None = None
    """`[tokens]`: the padded position of each token."""

    @property
    def tokens(self) -> slice:
        """The tokens' positions in the batch."""
        return slice(self.group.start, self.group.stop)

    def take(self, x: Tensor) -> Tensor:
        """Return the padded rows of x, by head: `[N, A, D]` -> `[b A, T, D]`. The values at padding
        are arbitrary."""
        tokens = x[self.tokens]
        if self.source is not None:
            tokens = tokens.index_select(0, self.source)
        return self._by_head(tokens)

    def take_gradient(self, x: Tensor) -> Tensor:
        """Return the padded rows of a gradient, by head: `[N, A, D]` -> `[b A, T, D]`, 0 at
        padding."""
        tokens = x[self.tokens]
        if self.target is not None:
            full = x.new_zeros(self.group.count * self.group.length, *x.shape[1:])
            tokens = full.index_copy_(0, self.target, tokens)
        return self._by_head(tokens)

    def put(self, x: Tensor, whole: Tensor) -> None:
        """Write x `[b A, T, D]`, without its padding, into `whole` `[N, A, D]`."""
        rows = x.view(self.group.count, -1, *x.shape[1:]).transpose(1, 2)
        if self.target is None:
            whole[self.tokens].view(rows.shape).copy_(rows)
        else:
            whole[self.tokens] = rows.flatten(0, 1).index_select(0, self.target)

    def _by_head(self, rows: Tensor) -> Tensor:
        """Group rows by head: `[b T, A, D]` -> `[b A, T, D]`."""
        return rows.view(self.group.count, -1, *rows.shape[1:]).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class Block:
    """Consecutive sequences whose scores are computed by one product."""

    queries: PaddedRows
    keys: PaddedRows
    """The rows of the keys; the object `queries` itself where sequences attend to themselves."""
    bias: Tensor | None = None
    """`[b A, 1, S]`, `[1, T, S]` or `[b A, T, S]`: 0 where a query sees a key, -inf elsewhere.
    None: every query sees every key."""


def blocks_of(
    queries: Sequences,
    keys: Sequences,
    heads: int,
    causal: bool,
    window: Window | None = None,
    exact: bool = False,
) -> list[Block]:
    """Return the blocks of a batch. They are computed once and shared by all layers."""
    key = ("blocks", heads, causal, window, exact, id(keys))
    # The value holds the keys as well: their id is not reused while they exist.
    _, blocks = queries.once(
        key, lambda: (keys, make_blocks(queries, keys, heads, causal, window, exact))
    )
    return blocks


def make_blocks(
    queries: Sequences,
    keys: Sequences,
    heads: int,
    causal: bool,
    window: Window | None,
    exact: bool,
) -> list[Block]:
    """Return blocks of consecutive sequences.

    A block holds sequences of nearly equal lengths, as many as keep its scores in cache. With
    `exact` it holds sequences of equal lengths, of any number.
    """
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
        query_rows = _make_rows(queries, run)
        key_rows = query_rows if keys is queries else _make_rows(keys, run)
        lengths = queries.lengths[run], keys.lengths[run]
        bias = None
        if window is None or prefixes is not None:
            bias = row_bias(*lengths, heads, causal, prefixes and prefixes[run])
        if window is not None:
            local = window_bias(*lengths, heads, window.reach, window.before[run])
            bias = local if bias is None else bias + local
        bias = None if bias is None else send(bias, queries.device)
        blocks.append(Block(query_rows, key_rows, bias))
    return blocks


def neighbours(
    queries: list[int], keys: list[int], most: int, near: float, spare: int
) -> Iterator[slice]:
    """Split a batch into runs of consecutive sequences that are padded and computed together.

    A run's queries are padded to at most `near * tokens + spare` positions, and so are its keys.

    Args:
        queries: the number of queries of each sequence.
        keys: the number of keys of each sequence.
        most: the maximum number of scores of a run.
        near: the number of padded positions per token.
        spare: the number of further padded positions of a run.

    Yields:
        The sequences of each run.
    """
    first = 0
    while first < len(queries):
        last = first + 1
        longest, widest = queries[first], keys[first]
        query_tokens, key_tokens = longest, widest
        while last < len(queries):
            rows = last - first + 1
            longer, wider = max(longest, queries[last]), max(widest, keys[last])
            more_queries, more_keys = query_tokens + queries[last], key_tokens + keys[last]
            fits = rows * longer * wider <= most and rows * longer <= near * more_queries + spare
            if not fits or rows * wider > near * more_keys + spare:
                break
            longest, widest, query_tokens, key_tokens = longer, wider, more_queries, more_keys
            last += 1
        yield slice(first, last)
        first = last


def _make_rows(sequences: Sequences, run: slice) -> PaddedRows:
    lengths, offsets = sequences.lengths[run], sequences.offsets
    group = Group(offsets[run.start], offsets[run.stop], len(lengths), max(lengths))
    if min(lengths) == group.length:
        return PaddedRows(group)
    real = torch.arange(group.length) < torch.tensor(lengths)[:, None]  # [b, T]
    target = real.flatten().nonzero()[:, 0]
    source = torch.zeros(group.count * group.length, dtype=torch.long)
    source[target] = torch.arange(len(target))
    return PaddedRows(group, send(source, sequences.device), send(target, sequences.device))


def row_bias(
    queries: list[int],
    keys: list[int],
    heads: int,
    causal: bool = False,
    prefixes: list[int] | None = None,
) -> Tensor | None:
    """Return `Block.bias` for padded rows, given the numbers of queries and of keys of each row."""
    counts = torch.tensor(keys)[:, None, None]
    last = counts - 1  # the last key that a query sees, [b, T or 1, 1]
    if causal or prefixes is not None:
        before = counts - torch.tensor(queries)[:, None, None]
        if before.min() < 0:
            raise ValueError("causal attention with more queries than keys in a sequence")
        if prefixes is None and before.min() == before.max():
            before = before[:1]  # padding keys come after all keys that a real query sees
        last = before + torch.arange(max(queries))[:, None]
        if prefixes is not None:
            last = last.maximum(torch.tensor(prefixes)[:, None, None] - 1)
    elif min(keys) == max(keys):
        return None
    hidden = torch.arange(max(keys)) > last
    bias = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    return bias if len(bias) == 1 else bias.repeat_interleave(heads, 0)


def window_bias(
    queries: Sequence[int],
    keys: Sequence[int],
    heads: int,
    reach: int,
    before: Sequence[int] = (),
) -> Tensor:
    """Return `Block.bias` of local attention for padded rows.

    Args:
        queries: the number of queries of each row.
        keys: the number of keys of each row.
        heads: A.
        reach: the largest distance of a key from its query.
        before: the number of keys before the first query of each row; empty: 0 for all.
    """
    rows = list(zip(queries, keys, before or [0] * len(keys), strict=True))
    rows = rows[:1] if len(set(rows)) == 1 else rows
    counts, ends, first = (torch.tensor(each)[:, None, None] for each in zip(*rows, strict=True))
    query, key = torch.arange(max(queries))[:, None], torch.arange(max(keys))
    hidden = ((key - query - first).abs() > reach) | (key >= ends)
    hidden &= query < counts  # a row of scores that are all hidden would have no softmax
    bias = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    return bias if len(bias) == 1 else bias.repeat_interleave(heads, 0)


def _scaled(x: Tensor, y: Tensor, scale: float, bias: Tensor | None = None) -> Tensor:
    """Return `scale x y + bias` for batches of matrices."""
    added = x.new_empty(1, 1, 1) if bias is None else bias
    return torch.baddbmm(added, x, y, beta=0 if bias is None else 1, alpha=scale)


def _attend_by_block(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: list[Block],
    dropout: float = 0.0,
    distances: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Return the context `[N, A D]` and the attention probabilities of each block.

    q is `[N, A, D]`, k and v are `[M, A, D]`, distances `[A, T, T]`.
    """
    context, probabilities, scale = q.new_empty(q.shape), [], q.shape[-1] ** -0.5
    for block in blocks:
        query, key = block.queries.take(q), block.keys.take(k).transpose(1, 2)
        scores = _scaled(query, key, scale, None if block.bias is None else block.bias.to(q.dtype))
        if distances is not None:
            by_head = scores.view(-1, len(distances), *scores.shape[1:])
            length = block.queries.group.length
            scores = (by_head + distances[:, :length, :length].to(q.dtype)).flatten(0, 1)
        p = scores.softmax(-1, dtype=scores.dtype)  # autocast would change the dtype
        p = drop(p, dropout) if dropout > 0 else p
        block.queries.put(torch.bmm(p, block.keys.take(v)), context)
        probabilities.append(p)
    return context.flatten(1), probabilities


class BlockAttention(torch.autograd.Function):
    """Attention block by block, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, blocks: list[Block], distances: Tensor | None, *parts: Tensor) -> Tensor:
        """Attend; the parts are those of `attend` -> `[N, A D]`."""
        q, k, v = split([*parts])
        context, probabilities = _attend_by_block(q, k, v, blocks, distances=distances)
        if any(ctx.needs_input_grad):
            ctx.blocks, ctx.parts = blocks, len(parts)
            ctx.save_for_backward(distances, *parts, *probabilities)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the arguments, given the gradient of the context `[N, A D]`."""
        distances, *saved = ctx.saved_tensors
        parts, probabilities = saved[: ctx.parts], saved[ctx.parts :]
        q, k, v = split([*parts])
        if torch.is_grad_enabled():  # a second derivative: the probabilities must have a graph
            context, _ = _attend_by_block(q, k, v, ctx.blocks, distances=distances)
            given = [distances, *parts]
            inputs = [x for x in given if x is not None and x.requires_grad]
            computed = iter(torch.autograd.grad(context, inputs, gradient, create_graph=True))
            wanted = [x is not None and x.requires_grad for x in given]
            return None, *(next(computed) if each else None for each in wanted)
        gradients = [x.new_empty(x.shape) for x in parts]
        d_q, d_k, d_v = split(gradients)
        upstream, scale = gradient.view(q.shape), q.shape[-1] ** -0.5
        d_distances = None
        if distances is not None and ctx.needs_input_grad[1]:
            d_distances = torch.zeros_like(distances)
        for block, p in zip(ctx.blocks, probabilities, strict=True):
            queries, keys = block.queries, block.keys
            d_context = queries.take_gradient(upstream)
            d_p = torch.bmm(d_context, keys.take(v).transpose(1, 2))
            d_s = torch._softmax_backward_data(d_p, p, -1, p.dtype)
            if d_distances is not None:
                length = queries.group.length
                by_head = d_s.view(-1, len(d_distances), *d_s.shape[1:])
                d_distances[:, :length, :length] += by_head.sum(0)
            queries.put(_scaled(d_s, keys.take(k), scale), d_q)
            d_s, p = d_s.transpose(1, 2), p.transpose(1, 2)
            keys.put(_scaled(d_s, queries.take(q), scale), d_k)
            keys.put(torch.bmm(p, d_context), d_v)
        return None, d_distances, *gradients
