"""Attention over sequences laid end to end; nothing attends across the end of a sequence.

Vaswani et al. 2017, section 3.2: `softmax(Q K^T / sqrt(D)) V` in each of A heads. Attention is

- bidirectional;
- causal: a query sees the keys up to its own position, where positions count back from the end of
  the sequence, so that one new query over a cache of keys sees all of them;
- prefixed: bidirectional over the source, causal over the target (`Sequences.prefixes`);
- or local: a query sees the keys of a window around it (Beltagy et al. 2020). Sequences much longer
  than the window are computed in chunks, so that the cost grows with their length, not its square;
  those with a prefix are not, as their window is also causal over the target.

A bias that depends on the distance of a query to a key (Shaw et al. 2018; Raffel et al. 2020) may
be added to the scores.

| where | how |
|---|---|
| CPU | one batched product for consecutive sequences of equal or nearly equal length; its gradient
        is written out, because the backward pass of the fused kernel is three times as slow at
        length 128 |
| CUDA, bf16 and fp16 | one variable-length flash call over the whole batch; blocks where
        sequences have a prefix, scores have a bias, or heads have a width that it does not take |
| dropout of probabilities above 0 | plain products: on a CPU by groups of equal length, on CUDA by
        blocks, since the variable-length call has no dropout |

Letters: N queries, M keys, H hidden, A heads, D = H / A, T and S tokens of a sequence of queries
and of its keys, b sequences in a block.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.nn.host import send
from bertwright.nn.layers.dropout import drop
from bertwright.nn.sequences import Group, Located, Sequences

# The scores of one block are at most this many numbers, so that they stay in the processor's cache.
BLOCK = 1 << 21
# Consecutive sequences share a block while its padded rows are at most NEAR times its tokens plus
# SPARE: for short sequences, another block costs more than padding.
NEAR, SPARE = 1.2, 256
# On a GPU, launching a kernel costs more than padding rows, and no cache has to hold the scores.
GPU_BLOCK, GPU_NEAR, GPU_SPARE = 1 << 27, 1.5, 4096
FLASH_WIDTH = 256
"""The widest head that the variable-length kernel takes."""
CHUNKED = 4
"""Local attention is computed in chunks where a sequence is longer than this many times the reach
of its window to one side."""


Attend = Callable[[Tensor], Tensor]
"""qkv `[N, 3 H]` -> context `[N, H]`: attention over a cache of keys and values."""


class SelfAttention(nn.Module):
    """Attention of each token of a sequence to all of its tokens, or to those up to itself.

    A model whose attention depends on positions overrides `parts` if positions change queries and
    keys, or `bias_between` if they change scores, and `attend` accordingly.
    """

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

    @property
    def bias_key(self) -> Hashable:
        """A value that is equal for the layers of a model whose `bias_between` is the same."""
        return None

    def bias_between(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return the bias that the distance of a query to a key adds to their score.

        Args:
            queries: `[T]`, the positions of the queries.
            keys: `[S]`, the positions of the keys.

        Returns:
            `[A, T, S]` or `[1, T, S]`; -inf where a query does not see a key. None: there is no
            bias.
        """
        return None

    def attend(self, parts: list[Tensor], sequences: Sequences) -> Tensor:
        """Compute the attention of sequences to themselves: the result of `parts` -> `[N, H]`."""
        dropout = self.dropout if self.training else 0.0
        return attend_packed(parts, sequences, causal=self.causal, dropout=dropout)

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> Tensor:
        """Return the attention probabilities of one sequence.

        They are computed again, because the fast paths do not keep them. x `[T, H]`, the layer's
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


def split(parts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values `[N, A, D]` of `SelfAttention.parts`."""
    q, k, v = (x for part in parts for x in part.unbind(1))
    return q, k, v


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

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of memory `[M, H]`, `[M, A, D]` each.

        A decoder computes them once per source.
        """
        k, v = self.key_value(memory).view(len(memory), 2, self.heads, -1).unbind(1)
        return k, v

    @torch.no_grad()
    def probabilities(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the attention probabilities of one sequence to another.

        x `[T, H]`, memory `[S, H]` -> `[A, T, S]` float32, whose rows sum to 1.
        """
        q = self.query(x).view(len(x), self.heads, -1)
        return weights(q.float(), self.keys_values(memory)[0].float())

    def forward(self, x: Tensor, queries: Sequences, memory: Tensor, keys: Sequences) -> Tensor:
        """Attend: x `[N, H]`, memory `[M, H]` -> `[N, H]`. Sequence i of `queries` attends to
        sequence i of `keys`."""
        q = self.query(x).view(len(x), self.heads, -1)
        dropout = self.dropout if self.training else 0.0
        k, v = self.keys_values(memory)
        output: Tensor = self.output(attend(q, k, v, queries, keys, dropout=dropout))
        return output


def weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return attention probabilities: q `[T, A, D]`, k `[S, A, D]` -> `[A, T, S]`. `bias` is added
    to the scores."""
    scores = q.transpose(0, 1) @ k.permute(1, 2, 0) * q.shape[-1] ** -0.5
    probabilities: Tensor = (scores if bias is None else scores + bias).softmax(-1)
    return probabilities


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
    """Compute the attention of each sequence of queries to the sequence of keys at the same index.

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
        ValueError: the numbers of sequences differ, or attention is causal and a sequence has more
            queries than keys.
    """
    if queries.count != keys.count:
        raise ValueError(f"{queries.count} sequences of queries, but {keys.count} of keys")
    parts = [x[:, None] for x in (q, k, v)]
    return _attend(parts, queries, keys, causal, dropout)


def attend_packed(
    parts: list[Tensor], sequences: Sequences, *, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """Compute the attention of sequences to themselves.

    Args:
        parts: queries, keys and values, `[N, n, A, D]` in one tensor or several, in this order.
        sequences: B lengths that sum to N.
        causal: whether a token sees only the tokens up to itself.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, A D]`, the heads side by side.
    """
    return _attend(parts, sequences, sequences, causal, dropout)


def attend_locally(
    parts: list[Tensor], sequences: Sequences, reach: int, dropout: float = 0.0
) -> Tensor:
    """Compute the attention of each token to the tokens of its sequence at a distance of at most
    `reach`.

    Args:
        parts: queries, keys and values, `[N, n, A, D]` in one tensor or several, in this order.
        sequences: B lengths that sum to N.
        reach: the largest distance, in tokens.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, A D]`, the heads side by side.
    """
    if sequences.longest <= reach + 1:  # each token sees the whole sequence
        return _attend(parts, sequences, sequences, False, dropout)
    flash = takes_flash(parts[0][:, 0]) and _has_windows() and dropout == 0
    whole = sequences.longest <= CHUNKED * reach or sequences.prefixes is not None
    if flash or whole:
        return _attend(parts, sequences, sequences, False, dropout, Window(reach))
    chunks = sequences.once(("chunks", reach), lambda: Chunks(sequences, reach))
    q, k, v = split(parts)
    near = torch.stack([k, v], 1).index_select(0, chunks.rows)  # [M, 2, A, D]
    window = Window(reach, chunks.before)
    return _attend([q[:, None], near], chunks.queries, chunks.keys, False, dropout, window)


def attend_by_distance(
    parts: list[Tensor], sequences: Sequences, bias: Tensor, dropout: float = 0.0
) -> Tensor:
    """Compute the attention of sequences to themselves with a bias for each distance.

    Args:
        parts: queries, keys and values, as of `attend_packed`.
        sequences: B lengths that sum to N.
        bias: `[A, T, T]`, where T is the longest length: the number added to the score of a query
            and a key at these positions of any sequence. It may have a gradient.
        dropout: fraction of attention probabilities to drop.

    Returns:
        `[N, A D]`, the heads side by side.
    """
    return _attend(parts, sequences, sequences, False, dropout, None, bias)


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


def _attend(
    parts: list[Tensor],
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    dropout: float,
    window: Window | None = None,
    distances: Tensor | None = None,
) -> Tensor:
    """Compute attention by the method of the module docstring's table that suits the device.

    Queries, keys and values, `[N, n, A, D]` in one tensor or several -> `[N, A D]`.
    """
    q, k, v = split(parts)
    prefixed = queries is keys and queries.prefixes is not None and not causal
    if dropout > 0:
        blocks = blocks_of(queries, keys, q.shape[1], causal, window, exact=not q.is_cuda)
        return _attend_by_block(q, k, v, blocks, dropout, distances)[0]
    if takes_flash(q) and not prefixed and distances is None and (not window or _has_windows()):
        return _attend_varlen(q, k, v, queries, keys, causal, window)
    blocks = blocks_of(queries, keys, q.shape[1], causal, window)
    context: Tensor = BlockAttention.apply(blocks, distances, *parts)  # type: ignore[no-untyped-call]
    return context


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


def attend_rows(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute attention over rows of one length, as in a cache of keys and values.

    It uses plain products. With one or few queries, a fused kernel takes up to six times as long on
    a CPU, and on a GPU cuDNN plans it again for each number of keys. With one query in bfloat16 on
    a CPU, `K q` is twice as fast as `q K^T`.

    Args:
        q: `[B, A, T, D]`.
        k: `[B, A, S, D]`.
        v: `[B, A, S, D]`.
        bias: added to the scores `[B, A, T, S]`.

    Returns:
        `[B, T, A D]`.
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
    """Split queries, keys or values `[B, T, parts H]` by head -> `[B, A, T, D]` each."""
    rows = x.view(x.shape[0], x.shape[1], parts, heads, -1)
    return list(rows.permute(2, 0, 3, 1, 4).unbind(0))


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
        """Attend; the parts are those of `_attend` -> `[N, A D]`."""
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


def takes_flash(q: Tensor) -> bool:
    """Return whether the variable-length kernel takes queries `[N, A, D]`.

    It takes fp16 and bf16 on a GPU of compute capability 8.0 and up, with D a multiple of 8 up to
    256.
    """
    if not q.is_cuda or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    return q.shape[2] % 8 == 0 and q.shape[2] <= FLASH_WIDTH and _has_flash(q.device)


@cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0) and torch.version.cuda is not None


def _attend_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    window: Window | None = None,
) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    options = _causal_argument() if causal else {}
    if window is not None:
        options = {"window_size": (window.reach, window.reach)}
    context = varlen_attn(
        q,
        k,
        v,
        queries.cu_seqlens,
        keys.cu_seqlens,
        queries.longest,
        keys.longest,
        **options,
    )
    assert isinstance(context, Tensor)
    return context.reshape(queries.total, -1)


@cache
def _has_windows() -> bool:
    """Return whether `varlen_attn` takes a window; older versions of torch do not."""
    from torch.nn.attention.varlen import varlen_attn

    return "window_size" in inspect.signature(varlen_attn).parameters


def _causal_argument() -> dict[str, Any]:
    """Return the argument that makes `varlen_attn` causal: a window, or a flag in older torch."""
    return {"window_size": (-1, 0)} if _has_windows() else {"is_causal": True}
