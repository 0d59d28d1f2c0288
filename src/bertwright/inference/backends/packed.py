"""BERT and its family for inference on a CPU: the same computation with fewer and faster
operations.

| where | what is saved |
|---|---|
| weights | they are laid out once in the layout of oneDNN's products |
| GELU, residual sums | they are computed within the product before them |
| 1 / sqrt(D) | it is multiplied into the weights of the queries |
| attention | it reads queries, keys and values where their product wrote them |
| memory | the attention of all layers writes to one matrix |
| the highest layer | after attention, it is computed only for the tokens that are read |

In float32, attention is torch's fused kernel. In bfloat16, where softmax's kernel is slow, it is
`exp(S) V / sum(exp(S))`. exp is computed without first subtracting the largest score of a row,
which could overflow; if scores are beyond 60, torch's softmax is used.

There is no gradient and no dropout. Without oneDNN, plain products are used. Packed are post-norm
layers with GELU, whose scores may have a bias by distance, as MPNet's.

Letters: N tokens, R of them read, H hidden, A heads, D = H / A, T a sequence's length, b sequences
of equal length.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.cpu_threads import one_core_each
from bertwright.data.batch import make_inputs, token_batches
from bertwright.inference.backends.plain import LayerBatch
from bertwright.inference.encode import Ids, Positions, positions_in
from bertwright.nn.encoder import Encoder
from bertwright.nn.products import reorder, rows_for
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.attention import SelfAttention
from bertwright.nn.transformer.layers import ACTIVATIONS, TransformerLayer
from bertwright.nn.transformer.stack import Stack

Block = tuple[int, int, int, int]
"""Sequences of equal length: their start and stop, their number, and the length of each."""

SAFE = 60.0
"""exp of twice this number, and its inverse, are finite in bfloat16 and float32."""
BLOCK = 1 << 20
"""The most scores of a block in bfloat16, so that they stay in the processor's cache."""
ROWS = 2048
"""The number of rows that weights are laid out for; other numbers work too."""
_MADE: dict[Hashable, set[int]] = {}
"""The numbers of rows for which oneDNN has made kernels, by everything else that they depend on:
the number of threads, the dtype, and the types and shapes of the products.
"""


class Product:
    """`x W^T + b`, fused with the operation after it."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Lay out the weight `[out, in]` and the bias `[out]`, which have the same dtype."""
        self.weight, self.bias = weight.detach().contiguous(), bias.detach().contiguous()
        self.laid_out = reorder(self.weight, ROWS)
        if self.laid_out is not None:  # naming the overloads avoids trying one after the other
            self._multiply = torch.ops.mkldnn._linear_pointwise.default
            self._multiply_and_add = torch.ops.mkldnn._linear_pointwise.binary

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce the product to its weights, because each copy, also one in another process, lays
        them out itself.
        """
        return type(self), (self.weight, self.bias)

    def __call__(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """Return `x W^T + b` `[N, out]` for x `[N, in]`; if `after` is "gelu", return its GELU.

        `how` is the argument `approximate` of torch's GELU.
        """
        if self.laid_out is None:
            y = F.linear(x, self.weight, self.bias)
            return F.gelu(y, approximate=how) if after == "gelu" else y
        product: Tensor = self._multiply(x, self.laid_out, self.bias, after, [], how)
        return product

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """Return `x W^T + b + other`."""
        if self.laid_out is None:
            return F.linear(x, self.weight, self.bias) + other
        total: Tensor = self._multiply_and_add(x, other, self.laid_out, self.bias, "add")
        return total


class PackedLayer:
    """A Transformer layer made of four products and two norms."""

    def __init__(self, layer: TransformerLayer, dtype: torch.dtype) -> None:
        attention, feed_forward = layer.attention, layer.feed_forward
        by_tanh = feed_forward.activation is ACTIVATIONS["gelu_tanh"]
        self.approximate = "tanh" if by_tanh else "none"
        weight, bias = attention.qkv.weight.float(), attention.qkv.bias.float()
        hidden = weight.shape[1]
        scale = torch.ones(3 * hidden)
        scale[:hidden] = (hidden // attention.heads) ** -0.5
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
        self.scores = attention
        self.attention_norm = Norm(layer.attention_norm, dtype)
        self.feed_forward_norm = Norm(layer.feed_forward_norm, dtype)

    def __call__(self, x: Tensor, attention: Attention, positions: Tensor | None = None) -> Tensor:
        """Return the layer's output, `[N, H]` -> `[N, H]`, or only that of the tokens at
        `positions` `[R]`.
        """
        context = attention(self.qkv(x), self.scores)
        if positions is not None:
            x, context = x.index_select(0, positions), context.index_select(0, positions)
        return self.behind(x, context)

    def behind(self, x: Tensor, context: Tensor) -> Tensor:
        """Return the layer's output `[R, H]` from its input x `[R, H]` and the output of attention,
        `context` `[R, H]`.
        """
        x = self.attention_norm(self.output.add(context, x))
        inside = self.wide(x, "gelu", self.approximate)  # [R, F]
        return self.feed_forward_norm(self.narrow.add(inside, x))


class Norm:
    """A layer norm whose weights are converted to a dtype."""

    def __init__(self, norm: nn.LayerNorm, dtype: torch.dtype) -> None:
        self.weight, self.bias = norm.weight.detach().to(dtype), norm.bias.detach().to(dtype)
        self.shape, self.eps = list(norm.normalized_shape), norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Return the normalized vectors: `[N, H]` -> `[N, H]`."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


def packable(encoder: Encoder) -> Stack | None:
    """Return the encoder if its weights can be packed, else None. It can if it is on a CPU, and its
    layers are bidirectional, post-norm and with GELU.
    """
    if encoder.device.type != "cpu" or not isinstance(encoder, Stack) or encoder.spec.causal:
        return None
    layers = [encoder.layer(number) for number in range(len(encoder.layers))]
    return encoder if all(map(_is_packable, layers)) else None


def _is_packable(layer: TransformerLayer) -> bool:
    is_usual = type(layer) is TransformerLayer and not layer.pre_norm
    by_position = type(layer.attention).parts is not SelfAttention.parts
    gelus = ACTIVATIONS["gelu"], ACTIVATIONS["gelu_tanh"]
    return is_usual and not by_position and layer.feed_forward.activation in gelus


class PackedStack:
    """An encoder whose layers are laid out once."""

    def __init__(self, stack: Stack, dtype: torch.dtype) -> None:
        """Lay out the weights.

        Args:
            stack: the encoder on the CPU, in any dtype, which is `packable`.
            dtype: the dtype of the products: float32 or bfloat16.
        """
        self.dtype, self.stack = dtype, stack
        layers = [stack.layer(number) for number in range(len(stack.layers))]
        self.heads = layers[0].attention.heads
        packed = {layer: PackedLayer(layer, dtype) for layer in dict.fromkeys(layers)}
        self.layers = [packed[layer] for layer in layers]  # ALBERT's are all the same one

    def run(
        self, inputs: Inputs, layers: tuple[int, ...], positions: Tensor | None = None
    ) -> list[Tensor]:
        """Return the requested layers, each `[N, H]`, in that order; no layer above them is
        computed.

        If `positions` `[R]` is given, the highest layer is computed only there, and is NaN
        elsewhere.
        """
        total, top = len(inputs.ids), max(layers)
        x = self.stack.embed(inputs).to(self.dtype)
        if padding := rows_for(total) - total:
            x = F.pad(x, (0, 0, 0, padding))
        attention = Attention(inputs.sequences, self.heads, x)
        states = {0: x}
        for number, layer in enumerate(self.layers[:top], 1):
            if positions is not None and number == top:
                read = len(positions)
                at = F.pad(positions, (0, rows_for(max(1, read)) - read))
                rows = layer(x, attention, at)
                x = x.new_full([total, x.shape[1]], float("nan"))
                x.index_copy_(0, positions, rows[:read])
            else:
                x = layer(x, attention)
            if number in layers:
                states[number] = x
        return [states[number][:total] for number in layers]

    def warm_up(self, most: int) -> None:
        """Make oneDNN's kernels for batches of up to `most` tokens and the current number of
        threads.

        Otherwise oneDNN would allocate the 2 to 5 MB of each size with the first batch of that
        size.
        """
        layer = self.layers[0]
        hidden, threads = layer.qkv.weight.shape[1], torch.get_num_threads()
        products = layer.qkv, layer.output, layer.wide, layer.narrow
        kind = threads, self.dtype, *((type(each), each.weight.shape) for each in products)
        existing = _MADE.setdefault(kind, set())
        sizes = {rows_for(tokens) for tokens in range(1, min(most, ROWS) + 1)}
        with torch.inference_mode():
            for rows in sorted(sizes - existing):
                x = torch.zeros(rows, hidden, dtype=self.dtype)
                layer.behind(x, layer.qkv(x)[:, :hidden].contiguous())
                existing.add(rows)


class Attention:
    """The attention of one batch, for queries that are already scaled.

    All layers write their result to the same matrix.
    """

    def __init__(self, sequences: Sequences, heads: int, like: Tensor) -> None:
        """Allocate the result, and plan the views of each block of sequences.

        Args:
            sequences: the sequences, of which neighbours of equal length form a block.
            heads: A, the number of heads.
            like: `[N, H]`, the input of a layer. Its last rows may belong to no sequence (padding).
        """
        self.sequences = sequences
        groups = [(each.start, each.stop, each.count, each.length) for each in sequences.groups]
        self.context = torch.zeros_like(like)
        hidden = like.shape[1]
        size = hidden // heads
        self._is_exact = like.dtype == torch.float32
        self._blocks = []
        for start, _, count, length in groups if self._is_exact else make_blocks(groups, heads):
            shape = 3, count, heads, length, size
            strides = hidden, 3 * length * hidden, size, 3 * hidden, 1
            target = self.context.as_strided(
                shape[1:], (length * hidden, size, hidden, 1), start * hidden
            )
            self._blocks.append((shape, strides, 3 * start * hidden, target))

    def __call__(self, qkv: Tensor, scores: SelfAttention) -> Tensor:
        """Return the attention's output: `[N, 3 H]` -> `[N, H]`.

        Rows that belong to no sequence are zero. The next call overwrites the result.

        Args:
            qkv: the queries, keys and values.
            scores: the attention of the layer, which may add a bias to the scores.
        """
        whole = self._bias(scores)
        for shape, strides, start, target in self._blocks:
            q, k, v = qkv.as_strided(shape, strides, start).unbind(0)  # [b, A, T, D]
            bias = None if whole is None else whole[:, : shape[3], : shape[3]]
            if self._is_exact:
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
            else:
                mixed = _mix(q, k, v, bias)
            target.copy_(mixed)
        return self.context

    def _bias(self, scores: SelfAttention) -> Tensor | None:
        """Return the bias of scores `[A, T, T]` at the positions of the longest sequence."""

        def make() -> Tensor | None:
            positions = torch.arange(self.sequences.longest)
            bias = scores.bias_between(positions, positions)
            return None if bias is None else bias.to(self.context.dtype)

        return self.sequences.once(("bias", scores.bias_key), make)


def _mix(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Return `softmax(Q K^T + bias) V` `[b, A, T, D]` of queries, keys and values of that shape,
    and a bias `[A, T, T]` or none."""
    shape = q.shape
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2))  # [b A, T, T]
    if bias is not None:
        scores.view(-1, *bias.shape).add_(bias)
    if _are_safe(scores):
        scores.exp_()
        found = torch.bmm(scores, v).div_(scores.sum(-1, keepdim=True))
    else:
        found = torch.bmm(scores.softmax(-1), v)
    return found.view(shape)


def _are_safe(scores: Tensor) -> bool:
    low, high = scores.aminmax()
    return float(low) > -SAFE and float(high) < SAFE


def make_blocks(groups: list[Block], heads: int) -> list[Block]:
    """Return the groups of equal length, split so that a block's scores stay in the cache."""
    blocks = []
    for first, _, count, length in groups:
        most = max(1, BLOCK // (heads * length * length))
        for done in range(0, count, most):
            some, start = min(most, count - done), first + done * length
            blocks.append((start, start + some * length, some, length))
    return blocks


class PackedBackend:
    """A `PackedStack` as a backend."""

    def __init__(self, packed: PackedStack, batch_tokens: int, name: str) -> None:
        self.packed, self.batch_tokens, self.name = packed, batch_tokens, name

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Yield the requested layers; see `Backend`.

        If there are many tokens, batches run in parallel, one on each core, because cores that
        share a batch wait for each other.
        """
        cpu = torch.device("cpu")

        def encode(rows: list[int]) -> LayerBatch:
            rows, inputs = make_inputs(rows, ids, segments, cpu)
            sequences = inputs.sequences
            read = None if positions is None else positions_in(rows, sequences, positions)
            with torch.inference_mode():
                states = self.packed.run(inputs, layers, read)
            return LayerBatch(rows, sequences, states)

        lengths = [len(sequence) for sequence in ids]
        tokens, threads = sum(lengths), torch.get_num_threads()
        if threads == 1 or tokens < 2 * threads * self.batch_tokens:
            yield from map(encode, token_batches(lengths, self.batch_tokens))
            return
        rounds = -(-tokens // (threads * self.batch_tokens))
        each = -(-tokens // (threads * rounds)) + max(lengths)  # all threads end at about one time
        with one_core_each(threads) as pool:
            yield from pool.map(encode, token_batches(lengths, each))
