"""BERT for reading only, on a processor: the same sums with less around them.

| where | what is saved |
|---|---|
| weights | laid out once as oneDNN's products want them |
| GELU, residual sums | done within the product before them |
| 1 / sqrt(D) | multiplied into the weights of the queries |
| positions and segments | summed once; of each group of equal lengths added at once |
| softmax | of short rows and in bfloat16 `exp(S) V / sum(exp(S))`: its kernel is slow there |
| scores | of long rows in float32 torch's attention writes none |
| the highest layer | behind attention, it is computed only where it is read |

Without the row's largest score taken off first, exp could overflow; where scores are beyond 60,
torch's softmax is used. No gradient, no dropout. Where oneDNN is not there, plain products.

Letters: N tokens, R of them read, H hidden, A heads, D = H / A, T a sequence's length, b sequences
of equal length.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert import Bert
from bertwright.nn.sequences import Group, Sequences
from bertwright.nn.transformer import TransformerLayer

SHORT = 16
"""Scores of a row from which softmax's kernel, in float32, is the faster way."""
LONG = 96
"""Tokens of a sequence from which, in float32, torch's attention is the faster way."""
SAFE = 60.0
"""exp of twice this is a number in bfloat16 and float32; so is its inverse."""
BLOCK = 1 << 20
"""Scores of a block, at most, so that they stay in the processor's cache."""
LARGE = 1024
"""Tokens of a batch that files of texts are read in; a server's are smaller."""
ROWS = 2048
"""Rows that weights are laid out for; others work too."""
_MADE: dict[Hashable, set[int]] = {}
"""Rows of the kernels that were made, by what else they are made for."""


def has_onednn() -> bool:
    """Whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


class Product:
    """`x W^T + b`, and what follows it in one go."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """weight `[out, in]`, bias `[out]`, of one dtype."""
        self.weight, self.bias = weight.detach().contiguous(), bias.detach().contiguous()
        self.laid_out: Tensor | None = None
        if has_onednn() and weight.device.type == "cpu":
            self.laid_out = torch.ops.mkldnn._reorder_linear_weight(self.weight, ROWS)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in another process too, lays its weights out itself."""
        return type(self), (self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """x `[N, in]` -> `[N, out]`"""
        return self._with(x, "none", "")

    def gelu(self, x: Tensor, approximate: str) -> Tensor:
        """`gelu(x W^T + b)`"""
        return self._with(x, "gelu", approximate)

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """`x W^T + b + other`"""
        if self.laid_out is None:
            return F.linear(x, self.weight, self.bias) + other
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            x, other, self.laid_out, self.bias, "add"
        )
        return result

    def _with(self, x: Tensor, after: str, how: str) -> Tensor:
        if self.laid_out is None:
            y = F.linear(x, self.weight, self.bias)
            return F.gelu(y, approximate=how) if after == "gelu" else y
        result: Tensor = torch.ops.mkldnn._linear_pointwise.default(
            x, self.laid_out, self.bias, after, [], how
        )
        return result


class PackedLayer:
    """A Transformer layer of four products and two norms."""

    def __init__(self, layer: TransformerLayer, dtype: torch.dtype) -> None:
        attention, feed_forward = layer.attention, layer.feed_forward
        self.heads = attention.heads
        self.approximate = feed_forward.approximate
        weight, bias = attention.qkv.weight.float(), attention.qkv.bias.float()
        hidden = weight.shape[1]
        scale = torch.ones(3 * hidden)
        scale[:hidden] = (hidden // self.heads) ** -0.5
        parts = [
            (weight * scale[:, None], bias * scale),
            *(
                (linear.weight, linear.bias)
                for linear in (attention.output, feed_forward.intermediate, feed_forward.output)
            ),
        ]
        self.qkv, self.output, self.wide, self.narrow = (
            Product(w.to(dtype), b.to(dtype)) for w, b in parts
        )
        self.norms = _norm(layer.attention_norm, dtype), _norm(layer.feed_forward_norm, dtype)

    def __call__(self, x: Tensor, blocks: list[Group], places: Tensor | None = None) -> Tensor:
        """x `[N, H]` -> `[N, H]`, or of the tokens at `places` `[R]` alone: `[R, H]`"""
        context = attend(self.qkv(x), self.heads, blocks)
        if places is not None:
            x, context = x.index_select(0, places), context.index_select(0, places)
        return self.behind(x, context)

    def behind(self, x: Tensor, context: Tensor) -> Tensor:
        """What follows attention: x and context `[R, H]` -> `[R, H]`"""
        x = self.norms[0](self.output.add(context, x))
        inside = self.wide.gelu(x, self.approximate)  # [R, F]
        return self.norms[1](self.narrow.add(inside, x))


class PackedBert:
    """A `Bert`, made ready once."""

    def __init__(self, bert: Bert, dtype: torch.dtype) -> None:
        """Lay out the weights.

        Args:
            bert: on the CPU, in any dtype.
            dtype: of the products: float32 or bfloat16.
        """
        self.dtype = dtype
        embeddings = bert.embeddings
        self.token, segment = (
            table.weight.detach() for table in (embeddings.token, embeddings.segment)
        )
        self.places = embeddings.position.weight.detach() + segment[0]
        self.others = segment - segment[0]
        self.norm = _norm(embeddings.norm, segment.dtype)
        self.layers = [PackedLayer(bert.layer(number), dtype) for number in range(len(bert.layers))]
        self.heads = bert.config.num_attention_heads

    def __call__(
        self,
        ids: Tensor,
        types: Tensor,
        sequences: Sequences,
        layers: tuple[int, ...],
        places: Tensor | None = None,
    ) -> list[Tensor]:
        """The layers asked for, each `[N, H]`, in the order asked; none above them is computed.

        Of the highest only the tokens at `places` `[R]` are, if given; the others are NaN.
        """
        total, top = sequences.total, max(layers)
        x = self.embed(ids, types, sequences).to(self.dtype)
        x = F.pad(x, (0, 0, 0, rows_for(total) - total))
        kept = {0: x}
        blocks = make_blocks(sequences, self.heads)
        for number, layer in enumerate(self.layers[:top], 1):
            if number == top and places is not None:
                read = len(places)
                found = layer(x, blocks, F.pad(places, (0, rows_for(max(1, read)) - read)))
                x = x.new_full((total, x.shape[1]), torch.nan)
                x.index_copy_(0, places, found[:read])
            else:
                x = layer(x, blocks)
            if number in layers:
                kept[number] = x
        return [kept[number][:total] for number in layers]

    def warm_up(self, most: int) -> None:
        """Have oneDNN make its kernels for batches of up to so many tokens and as many threads as
        this one has: the 2 to 5 MB it keeps of each size would else come with its first batch."""
        layer, hidden, threads = self.layers[0], self.token.shape[1], torch.get_num_threads()
        products = layer.qkv, layer.output, layer.wide, layer.narrow
        kind = threads, self.dtype, *((type(each), each.weight.shape) for each in products)
        made = _MADE.setdefault(kind, set())
        sizes = {rows_for(tokens) for tokens in range(1, min(most, ROWS) + 1)}
        with torch.inference_mode():
            for rows in sorted(sizes - made):
                x = torch.zeros(rows, hidden, dtype=self.dtype)
                layer.behind(x, layer.qkv(x)[:, :hidden].contiguous())
                made.add(rows)

    def embed(self, ids: Tensor, types: Tensor, sequences: Sequences) -> Tensor:
        """Token + position + segment, normalized: `[N, H]`"""
        x = F.embedding(ids, self.token)
        for group in sequences.groups:
            rows = x[group.start : group.stop].view(group.count, group.length, -1)
            rows += self.places[: group.length]
        if types.any():
            x += F.embedding(types, self.others)
        return self.norm(x)


def rows_for(tokens: int) -> int:
    """Rows for so many tokens, as oneDNN keeps 2 MB of kernels a size: an eighth more at most, of
    large batches, where rows cost more than sizes, a sixteenth."""
    bits = tokens.bit_length() - (4 if tokens < LARGE else 5)
    step = max(4, 1 << max(0, bits))
    return -(-tokens // step) * step


def attend(qkv: Tensor, heads: int, blocks: list[Group]) -> Tensor:
    """Attention, the queries scaled already: `[N, 3 H]` -> `[N, H]`, rows of no block zero."""
    context = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
    context[blocks[-1].stop :] = 0
    for block in blocks:
        split = block.count, block.length, heads, -1
        rows = qkv[block.start : block.stop].view(block.count, block.length, 3, heads, -1)
        found = _mix(rows.permute(2, 0, 3, 1, 4))
        context[block.start : block.stop].view(split).copy_(found.transpose(1, 2))
    return context


def _mix(rows: Tensor) -> Tensor:
    """`softmax(Q K^T) V`: queries, keys and values `[3, b, A, T, D]` -> `[b, A, T, D]`"""
    _, count, heads, length, size = rows.shape
    exact = rows.dtype == torch.float32
    if exact and length >= LONG:
        q, k, v = rows
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)
    q, k, v = rows.reshape(3, count * heads, length, size).unbind(0)
    scores = torch.bmm(q, k.transpose(1, 2))  # [b A, T, T]
    if (exact and length >= SHORT) or not _are_safe(scores):
        found = torch.bmm(scores.softmax(-1), v)
    else:
        scores.exp_()
        found = torch.bmm(scores, v).div_(scores.sum(-1, keepdim=True))
    return found.view(count, heads, length, size)


def _are_safe(scores: Tensor) -> bool:
    low, high = scores.aminmax()
    return float(low) > -SAFE and float(high) < SAFE


def make_blocks(sequences: Sequences, heads: int) -> list[Group]:
    """The groups of equal length, cut so that a block's scores stay in cache."""
    blocks = []
    for group in sequences.groups:
        length = group.length
        most = max(1, BLOCK // (heads * length * length))
        for done in range(0, group.count, most):
            count = min(most, group.count - done)
            start = group.start + done * length
            blocks.append(Group(start, start + count * length, count, length))
    return blocks


def _norm(norm: nn.LayerNorm, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    weight, bias = norm.weight.detach().to(dtype), norm.bias.detach().to(dtype)
    shape, eps = list(norm.normalized_shape), norm.eps
    return partial(torch.layer_norm, normalized_shape=shape, weight=weight, bias=bias, eps=eps)
