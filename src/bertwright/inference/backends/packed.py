"""BERT for inference on a CPU: the same computation with less overhead.

| where | what is saved |
|---|---|
| weights | they are laid out once in the layout of oneDNN's products |
| GELU, residual sums | they are computed within the product before them |
| 1 / sqrt(D) | it is multiplied into the weights of the queries |
| positions and segments | they are summed once, and added to a whole group of equal lengths |
| softmax | short rows and bfloat16 use `exp(S) V / sum(exp(S))`, because its kernel is slow there |
| scores | for long rows in float32, torch's attention does not write them to memory |
| the highest layer | after attention, it is computed only for the tokens that are read |
| Python | a batch is one call of TorchScript's interpreter, which releases Python's lock |

Functions that TorchScript compiles cannot read this file's constants, so they have them as defaults
of arguments.

exp is computed without first subtracting the largest score of a row, which could overflow; if
scores are beyond 60, torch's softmax is used. There is no gradient and no dropout. Without oneDNN,
plain products are used.

Letters: N tokens, R of them read, H hidden, A heads, D = H / A, T a sequence's length, b sequences
of equal length.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit import is_scripting  # type: ignore[attr-defined]

from bertwright.data.batch import make_inputs, token_batches
from bertwright.inference.backends.plain import LayerBatch
from bertwright.inference.encode import Ids, Positions, positions_in
from bertwright.models.bert.encoder import Bert
from bertwright.nn.encoder import Encoder
from bertwright.nn.products import reorder, rows_for
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.layers import ACTIVATIONS, TransformerLayer
from bertwright.threads import one_core_each

Block = tuple[int, int, int, int]
"""Sequences of equal length: their start and stop, their number, and the length of each."""

SHORT = 16
"""From this number of scores in a row, softmax's kernel is faster in float32."""
LONG = 96
"""From this number of tokens in a sequence, torch's attention is faster in float32."""
SAFE = 60.0
"""exp of twice this number, and its inverse, are finite in bfloat16 and float32."""
BLOCK = 1 << 20
"""The most scores of a block, so that they stay in the processor's cache."""
ROWS = 2048
"""The number of rows that weights are laid out for; other numbers work too."""
_MADE: dict[Hashable, set[int]] = {}
"""The numbers of rows for which kernels exist, by everything else that they depend on."""


def in_one_call(module: nn.Module) -> Callable[..., Any] | None:
    """Return a module's forward as compiled by TorchScript, or None if that is impossible.

    TorchScript releases Python's lock, and keeps Python's code out of the processor's caches. It is
    not available from Python 3.14 on, or where the source code is missing, as in a frozen program.
    """
    if sys.version_info >= (3, 14):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch offers no successor
        try:
            forward: Callable[..., Any] = torch.jit.script(module).forward
        except OSError:
            return None
    return forward


class Product(nn.Module):
    """`x W^T + b`, fused with the operation after it."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Lay out the weight `[out, in]` and the bias `[out]`, which have the same dtype."""
        super().__init__()
        self.weight, self.bias = weight.detach().contiguous(), bias.detach().contiguous()
        self.laid_out = reorder(self.weight, ROWS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy only the weights, because each copy, also in another process, lays them out
        itself.
        """
        return type(self), (self.weight, self.bias)

    def forward(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """Return `x W^T + b` `[N, out]` for x `[N, in]`, or its GELU; `how` is torch's
        `approximate`.
        """
        laid_out = self.laid_out
        if laid_out is None:
            y: Tensor = F.linear(x, self.weight, self.bias)
            return F.gelu(y, approximate=how) if after == "gelu" else y
        if is_scripting():
            y = torch.ops.mkldnn._linear_pointwise(x, laid_out, self.bias, after, [], how)
        else:  # naming the overload avoids trying one after the other
            y = torch.ops.mkldnn._linear_pointwise.default(x, laid_out, self.bias, after, [], how)
        return y

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """Return `x W^T + b + other`."""
        laid_out = self.laid_out
        if laid_out is None:
            y: Tensor = F.linear(x, self.weight, self.bias) + other
            return y
        if is_scripting():
            y = torch.ops.mkldnn._linear_pointwise(x, other, laid_out, self.bias, "add")
        else:
            y = torch.ops.mkldnn._linear_pointwise.binary(x, other, laid_out, self.bias, "add")
        return y


class PackedLayer(nn.Module):
    """A Transformer layer made of four products and two norms."""

    def __init__(self, layer: TransformerLayer, dtype: torch.dtype) -> None:
        super().__init__()
        attention, feed_forward = layer.attention, layer.feed_forward
        self.heads = attention.heads
        by_tanh = feed_forward.activation is ACTIVATIONS["gelu_tanh"]
        self.approximate = "tanh" if by_tanh else "none"
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
        self.attention_norm = Norm(layer.attention_norm, dtype)
        self.feed_forward_norm = Norm(layer.feed_forward_norm, dtype)

    def forward(self, x: Tensor, blocks: list[Block], positions: Tensor | None = None) -> Tensor:
        """Return the layer's output, `[N, H]` -> `[N, H]`, or only that of the tokens at
        `positions` `[R]`.
        """
        context = attend(self.qkv(x), self.heads, blocks)
        if positions is not None:
            x, context = x.index_select(0, positions), context.index_select(0, positions)
        return self.behind(x, context)

    def behind(self, x: Tensor, context: Tensor) -> Tensor:
        """Return the output of what follows attention: x and context `[R, H]` -> `[R, H]`."""
        x = self.attention_norm(self.output.add(context, x))
        inside = self.wide(x, "gelu", self.approximate)  # [R, F]
        y: Tensor = self.feed_forward_norm(self.narrow.add(inside, x))
        return y


class Norm(nn.Module):
    """A layer norm with its own dtype."""

    def __init__(self, norm: nn.LayerNorm, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight.detach().to(dtype), norm.bias.detach().to(dtype)
        self.shape, self.eps = list(norm.normalized_shape), norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized vectors: `[N, H]` -> `[N, H]`."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


def packable(encoder: Encoder) -> Bert | None:
    """Return the encoder if its weights can be packed (a bidirectional `Bert` on a CPU), else
    None.
    """
    if encoder.device.type != "cpu" or not isinstance(encoder, Bert) or encoder.spec.causal:
        return None
    return encoder


class PackedBert(nn.Module):
    """A `Bert` whose weights are laid out once."""

    def __init__(self, bert: Bert, dtype: torch.dtype) -> None:
        """Lay out the weights.

        Args:
            bert: the model on the CPU, in any dtype.
            dtype: the dtype of the products: float32 or bfloat16.
        """
        super().__init__()
        self.dtype = dtype
        embeddings = bert.embeddings
        self.token = embeddings.token.weight.detach()
        if embeddings.segment is None:
            segment = self.token.new_zeros(1, self.token.shape[1])
        else:
            segment = embeddings.segment.weight.detach()
        self.positions = embeddings.position.weight.detach() + segment[0]
        self.others = segment - segment[0]
        self.norm = Norm(embeddings.norm, segment.dtype)
        self.heads = bert.config.num_attention_heads
        self.layers = nn.ModuleList(
            PackedLayer(bert.layer(number), dtype) for number in range(len(bert.layers))
        )
        self._call = in_one_call(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_call": self._call is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._call = in_one_call(self) if state["_call"] else None

    def open(self) -> None:
        """Call the layers from Python from now on, because their products are to be replaced."""
        self._call = None

    def run(
        self,
        ids: Tensor,
        types: Tensor,
        sequences: Sequences,
        layers: tuple[int, ...],
        positions: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the requested layers, each `[N, H]`, in that order; no layer above them is
        computed.

        If `positions` `[R]` is given, the highest layer is computed only there, and is NaN
        elsewhere.
        """
        groups = groups_of(sequences)
        blocks = make_blocks(groups, self.heads)
        call = self.forward if self._call is None else self._call
        states: list[Tensor] = call(ids, types, groups, blocks, list(layers), positions)
        return states

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        groups: list[Block],
        blocks: list[Block],
        layers: list[int],
        positions: Tensor | None,
    ) -> list[Tensor]:
        """Compute the layers; see `run`."""
        total, top = len(ids), max(layers)
        x = self.embed(ids, types, groups).to(self.dtype)
        x = F.pad(x, (0, 0, 0, rows_for(total) - total))
        states = {0: x}
        for index, layer in enumerate(self.layers):
            number = index + 1
            if positions is not None and number == top:
                read = len(positions)
                at = F.pad(positions, (0, rows_for(max(1, read)) - read))
                rows = layer(x, blocks, at)
                x = x.new_full([total, x.shape[1]], float("nan"))
                x.index_copy_(0, positions, rows[:read])
            elif number <= top:
                x = layer(x, blocks)
            if number in layers:
                states[number] = x
        return [states[number][:total] for number in layers]

    def warm_up(self, most: int) -> None:
        """Make oneDNN's kernels for batches of up to `most` tokens and the current number of
        threads.

        Otherwise oneDNN would allocate the 2 to 5 MB of each size with the first batch of that
        size.
        """
        layer = cast(PackedLayer, self.layers[0])
        hidden, threads = self.token.shape[1], torch.get_num_threads()
        products = layer.qkv, layer.output, layer.wide, layer.narrow
        kind = threads, self.dtype, *((type(each), each.weight.shape) for each in products)
        existing = _MADE.setdefault(kind, set())
        sizes = {rows_for(tokens) for tokens in range(1, min(most, ROWS) + 1)}
        with torch.inference_mode():
            for rows in sorted(sizes - existing):
                x = torch.zeros(rows, hidden, dtype=self.dtype)
                layer.behind(x, layer.qkv(x)[:, :hidden].contiguous())
                existing.add(rows)

    def embed(self, ids: Tensor, types: Tensor, groups: list[Block]) -> Tensor:
        """Return the normalized sum of token, position and segment embeddings, `[N, H]`."""
        x = F.embedding(ids, self.token)
        for start, stop, count, length in groups:
            x[start:stop].view([count, length, -1]).add_(self.positions[:length])
        if len(self.others) > 1 and bool(types.any()):
            x.add_(F.embedding(types, self.others))
        y: Tensor = self.norm(x)
        return y


def attend(qkv: Tensor, heads: int, blocks: list[Block]) -> Tensor:
    """Compute attention with queries that are already scaled: `[N, 3 H]` -> `[N, H]`. Rows outside
    of all blocks are zero.
    """
    context = qkv.new_empty([qkv.shape[0], qkv.shape[1] // 3])
    context[blocks[-1][1] :] = 0
    for start, stop, count, length in blocks:
        rows = qkv[start:stop].view([count, length, 3, heads, -1])
        mixed = _mix(rows.permute([2, 0, 3, 1, 4]))
        context[start:stop].view([count, length, heads, -1]).copy_(mixed.transpose(1, 2))
    return context


def _mix(rows: Tensor, short: int = SHORT, long: int = LONG) -> Tensor:
    """Return `softmax(Q K^T) V` of queries, keys and values: `[3, b, A, T, D]` -> `[b, A, T,
    D]`.
    """
    _, count, heads, length, size = rows.shape
    exact = rows.dtype == torch.float32
    if exact and length >= long:
        q, k, v = rows.unbind(0)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)
    q, k, v = rows.reshape([3, count * heads, length, size]).unbind(0)
    scores = torch.bmm(q, k.transpose(1, 2))  # [b A, T, T]
    if (exact and length >= short) or not _are_safe(scores):
        mixed = torch.bmm(scores.softmax(-1), v)
    else:
        scores.exp_()
        mixed = torch.bmm(scores, v).div_(scores.sum(-1, keepdim=True))
    return mixed.view([count, heads, length, size])


def _are_safe(scores: Tensor, most: float = SAFE) -> bool:
    low, high = scores.aminmax()
    return float(low) > -most and float(high) < most


def groups_of(sequences: Sequences) -> list[Block]:
    """Return the groups of neighbouring sequences of equal length."""
    return [(each.start, each.stop, each.count, each.length) for each in sequences.groups]


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
    """A `PackedBert` as a backend."""

    def __init__(self, packed: PackedBert, batch_tokens: int, name: str) -> None:
        self.packed, self.batch_tokens, self.name = packed, batch_tokens, name

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        """Compute layers; see `Backend`. Many batches run in parallel, one on each core, because
        cores that share a batch wait for each other.
        """
        cpu = torch.device("cpu")

        def encode(rows: list[int]) -> LayerBatch:
            rows, inputs = make_inputs(rows, ids, segments, cpu)
            sequences, types = inputs.sequences, inputs.segments
            types = torch.zeros_like(inputs.ids) if types is None else types
            read = None if positions is None else positions_in(rows, sequences, positions)
            with torch.inference_mode():
                states = self.packed.run(inputs.ids, types, sequences, layers, read)
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
