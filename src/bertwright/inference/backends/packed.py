"""BERT for inference alone, on a CPU: the same sums with less around them.

| where | what is saved |
|---|---|
| weights | laid out once as oneDNN's products want them |
| GELU, residual sums | done within the product before them |
| 1 / sqrt(D) | multiplied into the weights of the queries |
| positions and segments | summed once; of each group of equal lengths added at once |
| softmax | of short rows and in bfloat16 `exp(S) V / sum(exp(S))`: its kernel is slow there |
| scores | of long rows in float32 torch's attention writes none |
| the highest layer | behind attention, it is computed only where it is read |
| Python | a batch is one call of torch's own interpreter, which leaves Python's lock to others |

What is interpreted cannot read this file's numbers, and has them as defaults of arguments.

Without the row's largest score taken off first, exp could overflow; where scores are beyond 60,
torch's softmax is used. No gradient, no dropout. Where oneDNN is not there, plain products.

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

from bertwright.data.batch import token_batches
from bertwright.data.to_device import make_inputs
from bertwright.inference.backends.plain import LayerBatch
from bertwright.inference.encode import Ids, Positions, positions_in
from bertwright.models.bert.encoder import Bert
from bertwright.nn.encoder import Encoder
from bertwright.nn.products import reorder, rows_for
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.layers import ACTIVATIONS, TransformerLayer
from bertwright.threads import one_core_each

Block = tuple[int, int, int, int]
"""Sequences of equal length: where they start and stop, how many they are, how long each is."""

SHORT = 16
"""Scores of a row from which softmax's kernel, in float32, is the faster way."""
LONG = 96
"""Tokens of a sequence from which, in float32, torch's attention is the faster way."""
SAFE = 60.0
"""exp of twice this is a number in bfloat16 and float32; so is its inverse."""
BLOCK = 1 << 20
"""Scores of a block, at most, so that they stay in the processor's cache."""
ROWS = 2048
"""Rows that weights are laid out for; other numbers work too."""
_MADE: dict[Hashable, set[int]] = {}
"""Rows of the kernels that exist, by what else they depend on."""


def in_one_call(module: nn.Module) -> Callable[..., Any] | None:
    """What a module computes, by torch's own interpreter (TorchScript): Python's lock is free
    meanwhile, and Python's code need not be in the processor's caches. None where it is impossible:
    from Python 3.14 on, and where the source is not there, as in a frozen program."""
    if sys.version_info >= (3, 14):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch has no successor
        try:
            forward: Callable[..., Any] = torch.jit.script(module).forward
        except OSError:
            return None
    return forward


class Product(nn.Module):
    """`x W^T + b`, and what follows it in one go."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """weight `[out, in]`, bias `[out]`, of one dtype."""
        super().__init__()
        self.weight, self.bias = weight.detach().contiguous(), bias.detach().contiguous()
        self.laid_out = reorder(self.weight, ROWS)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in another process too, lays its weights out itself."""
        return type(self), (self.weight, self.bias)

    def forward(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """x `[N, in]` -> `x W^T + b` `[N, out]`, or gelu of it, `how` as torch's `approximate`."""
        laid_out = self.laid_out
        if laid_out is None:
            y: Tensor = F.linear(x, self.weight, self.bias)
            return F.gelu(y, approximate=how) if after == "gelu" else y
        if is_scripting():
            y = torch.ops.mkldnn._linear_pointwise(x, laid_out, self.bias, after, [], how)
        else:  # by its name in full, as others are tried one after the other
            y = torch.ops.mkldnn._linear_pointwise.default(x, laid_out, self.bias, after, [], how)
        return y

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """`x W^T + b + other`"""
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
    """A Transformer layer of four products and two norms."""

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
        """x `[N, H]` -> `[N, H]`, or of the tokens at `positions` `[R]` alone: `[R, H]`"""
        context = attend(self.qkv(x), self.heads, blocks)
        if positions is not None:
            x, context = x.index_select(0, positions), context.index_select(0, positions)
        return self.behind(x, context)

    def behind(self, x: Tensor, context: Tensor) -> Tensor:
        """What follows attention: x and context `[R, H]` -> `[R, H]`"""
        x = self.attention_norm(self.output.add(context, x))
        inside = self.wide(x, "gelu", self.approximate)  # [R, F]
        y: Tensor = self.feed_forward_norm(self.narrow.add(inside, x))
        return y


class Norm(nn.Module):
    """A layer norm in a dtype of its own."""

    def __init__(self, norm: nn.LayerNorm, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight.detach().to(dtype), norm.bias.detach().to(dtype)
        self.shape, self.eps = list(norm.normalized_shape), norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """x `[N, H]` -> `[N, H]`"""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


def packable(encoder: Encoder) -> Bert | None:
    """The encoder, if its weights can be packed: a `Bert` on a CPU."""
    on_cpu = encoder.device.type == "cpu"
    return encoder if on_cpu and isinstance(encoder, Bert) and not encoder.spec.causal else None


class PackedBert(nn.Module):
    """A `Bert` with its weights laid out once."""

    def __init__(self, bert: Bert, dtype: torch.dtype) -> None:
        """Lay out the weights.

        Args:
            bert: on the CPU, in any dtype.
            dtype: of the products: float32 or bfloat16.
        """
        super().__init__()
        self.dtype = dtype
        embeddings = bert.embeddings
        self.token, segment = (
            table.weight.detach() for table in (embeddings.token, embeddings.segment)
        )
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
        """Have Python call the layers from now on, as their products are to be replaced."""
        self._call = None

    def run(
        self,
        ids: Tensor,
        types: Tensor,
        sequences: Sequences,
        layers: tuple[int, ...],
        positions: Tensor | None = None,
    ) -> list[Tensor]:
        """The requested layers, each `[N, H]`, in that order; none above them is computed.

        Of the highest only the tokens at `positions` `[R]` are, if given; the others are NaN.
        """
        groups = groups_of(sequences)
        blocks = make_blocks(groups, self.heads)
        call = self.forward if self._call is None else self._call
        found: list[Tensor] = call(ids, types, groups, blocks, list(layers), positions)
        return found

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        groups: list[Block],
        blocks: list[Block],
        layers: list[int],
        positions: Tensor | None,
    ) -> list[Tensor]:
        """See `run`."""
        total, top = len(ids), max(layers)
        x = self.embed(ids, types, groups).to(self.dtype)
        x = F.pad(x, (0, 0, 0, rows_for(total) - total))
        kept = {0: x}
        for index, layer in enumerate(self.layers):
            number = index + 1
            if positions is not None and number == top:
                read = len(positions)
                at = F.pad(positions, (0, rows_for(max(1, read)) - read))
                found = layer(x, blocks, at)
                x = x.new_full([total, x.shape[1]], float("nan"))
                x.index_copy_(0, positions, found[:read])
            elif number <= top:
                x = layer(x, blocks)
            if number in layers:
                kept[number] = x
        return [kept[number][:total] for number in layers]

    def warm_up(self, most: int) -> None:
        """Have oneDNN make its kernels for batches of up to so many tokens and as many threads as
        this one has: the 2 to 5 MB it keeps of each size would else come with its first batch."""
        layer = cast(PackedLayer, self.layers[0])
        hidden, threads = self.token.shape[1], torch.get_num_threads()
        products = layer.qkv, layer.output, layer.wide, layer.narrow
        kind = threads, self.dtype, *((type(each), each.weight.shape) for each in products)
        made = _MADE.setdefault(kind, set())
        sizes = {rows_for(tokens) for tokens in range(1, min(most, ROWS) + 1)}
        with torch.inference_mode():
            for rows in sorted(sizes - made):
                x = torch.zeros(rows, hidden, dtype=self.dtype)
                layer.behind(x, layer.qkv(x)[:, :hidden].contiguous())
                made.add(rows)

    def embed(self, ids: Tensor, types: Tensor, groups: list[Block]) -> Tensor:
        """Token + position + segment, normalized: `[N, H]`"""
        x = F.embedding(ids, self.token)
        for start, stop, count, length in groups:
            x[start:stop].view([count, length, -1]).add_(self.positions[:length])
        if bool(types.any()):
            x.add_(F.embedding(types, self.others))
        y: Tensor = self.norm(x)
        return y


def attend(qkv: Tensor, heads: int, blocks: list[Block]) -> Tensor:
    """Attention, the queries scaled already: `[N, 3 H]` -> `[N, H]`, rows of no block zero."""
    context = qkv.new_empty([qkv.shape[0], qkv.shape[1] // 3])
    context[blocks[-1][1] :] = 0
    for start, stop, count, length in blocks:
        rows = qkv[start:stop].view([count, length, 3, heads, -1])
        found = _mix(rows.permute([2, 0, 3, 1, 4]))
        context[start:stop].view([count, length, heads, -1]).copy_(found.transpose(1, 2))
    return context


def _mix(rows: Tensor, short: int = SHORT, long: int = LONG) -> Tensor:
    """`softmax(Q K^T) V`: queries, keys and values `[3, b, A, T, D]` -> `[b, A, T, D]`"""
    _, count, heads, length, size = rows.shape
    exact = rows.dtype == torch.float32
    if exact and length >= long:
        q, k, v = rows.unbind(0)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)
    q, k, v = rows.reshape([3, count * heads, length, size]).unbind(0)
    scores = torch.bmm(q, k.transpose(1, 2))  # [b A, T, T]
    if (exact and length >= short) or not _are_safe(scores):
        found = torch.bmm(scores.softmax(-1), v)
    else:
        scores.exp_()
        found = torch.bmm(scores, v).div_(scores.sum(-1, keepdim=True))
    return found.view([count, heads, length, size])


def _are_safe(scores: Tensor, most: float = SAFE) -> bool:
    low, high = scores.aminmax()
    return float(low) > -most and float(high) < most


def groups_of(sequences: Sequences) -> list[Block]:
    """Neighbouring sequences of equal length."""
    return [(each.start, each.stop, each.count, each.length) for each in sequences.groups]


def make_blocks(groups: list[Block], heads: int) -> list[Block]:
    """The groups of equal length, split so that a block's scores stay in cache."""
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
        """See `Backend`. Many batches run one a core: cores that share one wait for each other."""
        cpu = torch.device("cpu")

        def encode(rows: list[int]) -> LayerBatch:
            rows, inputs = make_inputs(rows, ids, segments, cpu)
            sequences, own = inputs.sequences, inputs.segments
            own = torch.zeros_like(inputs.ids) if own is None else own
            read = None if positions is None else positions_in(rows, sequences, positions)
            with torch.inference_mode():
                states = self.packed.run(inputs.ids, own, sequences, layers, read)
            return LayerBatch(rows, sequences, states)

        lengths = [len(sequence) for sequence in ids]
        tokens, threads = sum(lengths), torch.get_num_threads()
        if threads == 1 or tokens < 2 * threads * self.batch_tokens:
            yield from map(encode, token_batches(lengths, self.batch_tokens))
            return
        rounds = -(-tokens // (threads * self.batch_tokens))
        each = -(-tokens // (threads * rounds)) + max(lengths)  # all threads end at about once
        with one_core_each(threads) as pool:
            yield from pool.map(encode, token_batches(lengths, each))
