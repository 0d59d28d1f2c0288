"""LSTMs (Hochreiter and Schmidhuber 1997) over packed sequences of any lengths, without computation
for padding.

A layer reads forward, backward or in both directions (Graves and Schmidhuber 2005). Its state may
be projected (Sak et al. 2014), as in ELMo. DropConnect on the recurrent weights (Wan et al. 2013),
as in AWD-LSTM, uses one mask for all positions of a batch. Computation is in float32, also under
autocast, because a recurrence accumulates rounding errors. The state of each sequence begins at 0
and is not carried over, so that a training step is a function of its batch.

Where lengths differ, a layer on a CPU loops over positions and has its own backward pass:

    i, f, o = sigmoid(W_ih x_t + W_hh h_(t-1) + b)      g = tanh(the same)
    c_t = f c_(t-1) + i g                               h_t = o tanh(c_t)

PyTorch adds the outer product of every position to the gradient of W_hh; here the gradient is one
product over all rows, which makes the layer 2 to 3 times as fast. Where all lengths are equal,
PyTorch's fused kernel is used.

Letters: W rows in all, F width of a row, P width of a state (of its projection, if there is one), H
width of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from bertwright.nn.host import send
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.ragged import pack
from bertwright.nn.sequences import Sequences

Direction = Literal["forward", "backward", "both"]


class LstmState(NamedTuple):
    """The states of one layer after the last row of each of B sequences."""

    h: Tensor
    """`[B, P]`"""
    c: Tensor
    """`[B, H]`"""


class Lstm(nn.Module):
    """An LSTM layer that reads each sequence forward, backward or in both directions."""

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        input: int,
        size: int,
        direction: Direction = "forward",
        projection: int = 0,
        weight_dropout: float = 0.0,
    ) -> None:
        """Build the layer.

        Args:
            input: F.
            size: the width of a cell, H.
            direction: the direction in which each sequence is read.
            projection: P of each direction; 0: no projection.
            weight_dropout: the dropout of the recurrent weights.
        """
        super().__init__()
        self.size = projection or size
        self.direction = direction
        both = direction == "both"
        self.lstm = nn.LSTM(input, size, bidirectional=both, proj_size=projection)
        self.weight_dropout = Dropout(weight_dropout)

    def forward(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Read each sequence.

        Args:
            x: `[W, F]`, the sequences end to end.
            counts: the number of rows of each sequence, W in all.

        Returns:
            `[W, P]` float32, or `[W, 2 P]` in both directions: forward, then backward states.
        """
        if not sum(counts):
            width = self.size * (2 if self.direction == "both" else 1)
            return x.new_zeros(0, width, dtype=torch.float32)
        x = x.to(next(self.parameters()).dtype)  # float32, unless the whole model is bfloat16
        differ = len({*counts} - {0}) > 1
        with torch.autocast(x.device.type, enabled=False):
            if differ and not self.lstm.proj_size and not x.is_cuda:
                states = self._looped(x, counts)
            else:
                order, inverse, sizes = _packed_order(counts, self.direction, x.device)
                packed = PackedSequence(_reordered(x, order, inverse), torch.tensor(sizes))
                states = _reordered(self._fused(packed), inverse, order)
        return states.to(torch.promote_types(states.dtype, torch.float32))

    def go_on(
        self, x: Tensor, counts: Sequence[int], state: LstmState | None
    ) -> tuple[Tensor, LstmState]:
        """Read further rows of each sequence, forward and without dropout.

        Args:
            x: `[W, F]`, the further rows of B sequences end to end.
            counts: the number of rows of each sequence, at least 1.
            state: the states after the rows before; None: there were none.

        Returns:
            The states of all rows `[W, P]`, and the states after the last row of each sequence.
        """
        x = x.to(next(self.parameters()).dtype)
        packing = pack(counts, x.device)
        packed = PackedSequence(x[packing.order], torch.tensor(packing.sizes))
        before = None
        if state is not None:
            before = state.h[packing.owners][None], state.c[packing.owners][None]
        with torch.autocast(x.device.type, enabled=False):
            rows, (h, c) = self.lstm(packed, before)
        back = packing.owners.argsort()
        return rows.data[packing.inverse], LstmState(h[0][back], c[0][back])

    def _looped(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Compute the states by the loop over positions: x `[W, F]` -> `[W, H]`, or `[W, 2 H]` in
        both directions."""
        passes: dict[Direction, str] = {self.direction: ""}
        if self.direction == "both":
            passes = {"forward": "", "backward": "_reverse"}
        states = []
        for direction, suffix in passes.items():
            order, inverse, sizes = _packed_order(counts, direction, x.device)
            kinds = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
            w_ih, w_hh, b_ih, b_hh = (
                self.lstm.get_parameter(f"{kind}_l0{suffix}") for kind in kinds
            )
            rows, dropped = _reordered(x, order, inverse), self.weight_dropout(w_hh)
            looped = _Looped.apply(rows, sizes, w_ih, dropped, b_ih + b_hh)  # type: ignore[no-untyped-call]
            states.append(_reordered(looped, inverse, order))
        return torch.cat(states, 1)

    def _fused(self, packed: PackedSequence) -> Tensor:
        """Compute the states by PyTorch's LSTM: packed rows `[W, F]` -> `[W, P]`, or `[W, 2 P]` in
        both directions."""
        lstm = self.lstm
        if not self.training or not self.weight_dropout.p:
            states: PackedSequence = lstm(packed)[0]
            return states.data
        weights = [
            self.weight_dropout(weight) if name.startswith("weight_hh") else weight
            for name, weight in lstm.named_parameters()
        ]
        x, sizes = packed.data, packed.batch_sizes
        rows = 2 if lstm.bidirectional else 1, int(sizes[0])
        h, c = x.new_zeros(*rows, self.size), x.new_zeros(*rows, lstm.hidden_size)
        options = True, 1, 0.0, True, lstm.bidirectional
        return torch.lstm(x, sizes, (h, c), weights, *options)[0]


class _Looped(torch.autograd.Function):
    """The LSTM as a loop over positions, with its gradient written out.

    It takes packed x `[W, F]`, the number of rows of each position, W_ih `[4 H, F]`, W_hh
    `[4 H, H]` and b `[4 H]`, and returns the states `[W, H]`. The gates are in PyTorch's order: i,
    f, g, o.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sizes: list[int], w_ih: Tensor, w_hh: Tensor, bias: Tensor
    ) -> Tensor:
        width = w_hh.shape[1]
        gates = torch.addmm(bias, x, w_ih.t())  # [W, 4 H]
        h, c, squashed = (x.new_empty(len(x), width) for _ in range(3))
        w_hh_t = w_hh.t().contiguous()
        for now, before in _positions(sizes):
            current = gates[now]
            if now.start:
                current.addmm_(h[before], w_hh_t)
            current[:, : 2 * width].sigmoid_()
            current[:, 2 * width : 3 * width].tanh_()
            current[:, 3 * width :].sigmoid_()
            i, f, g, o = current.split_with_sizes([width] * 4, 1)
            torch.mul(i, g, out=c[now])
            if now.start:
                c[now].addcmul_(f, c[before])
            torch.tanh(c[now], out=squashed[now])
            torch.mul(o, squashed[now], out=h[now])
        ctx.save_for_backward(x, w_ih, w_hh, gates, h, c, squashed)
        ctx.sizes = sizes
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, w_ih, w_hh, gates, h, c, squashed = ctx.saved_tensors
        positions, first = _positions(ctx.sizes), ctx.sizes[0]
        i, f, g, o = gates.view(len(x), 4, -1).unbind(1)  # [W, H] each
        rows = torch.cat([torch.arange(b.start, b.stop) for _, b in positions])  # [W - first]
        # The derivatives of c (for o: of h) with respect to the input of each gate.
        d = torch.empty_like(gates).view(len(x), 4, -1)
        torch.mul(g, i * (1 - i), out=d[:, 0])
        d[:first, 1] = 0
        d[first:, 1] = c[rows] * (f * (1 - f))[first:]
        torch.mul(i, 1 - g.square(), out=d[:, 2])
        torch.mul(squashed, o * (1 - o), out=d[:, 3])
        of_h = o * (1 - squashed.square())  # the derivative of h with respect to c
        d_h, d_c = gradient.clone(), torch.zeros_like(c)
        flat = d.view(len(x), -1)  # [W, 4 H]
        for now, before in reversed(positions):
            d_c[now].addcmul_(d_h[now], of_h[now])
            d[now, :3] *= d_c[now].unsqueeze(1)
            d[now, 3] *= d_h[now]
            if now.start:
                d_h[before].addmm_(flat[now], w_hh)
                torch.mul(d_c[now], f[now], out=d_c[before])
        return flat @ w_ih, None, flat.t() @ x, flat[first:].t() @ h[rows], flat.sum(0)


def _positions(sizes: list[int]) -> list[tuple[slice, slice]]:
    """Return, for each position, its packed rows and the rows of the same sequences at the position
    before; the latter are empty for the first position."""
    starts = [0, 0, *accumulate(sizes)]
    return [
        (slice(now, now + size), slice(before, before + size if now else before))
        for before, now, size in zip(starts, starts[1:], sizes, strict=False)
    ]


class ClippedLstm(nn.Module):
    """An LSTM layer in one direction, with clipped cells and projected states (Sak et al. 2014).

    `c = clip(f * c + i * g)`, `h = clip(W_p (o * tanh(c)))`. With clipping, the layer loops over
    positions; without, it calls the fused LSTM. On a CPU it also loops where there is a projection,
    for which PyTorch has no fast LSTM: forward and backward pass over 4,096 tokens of width 128,
    with cells of width 256, take 0.34 s in PyTorch and 0.16 s in the loop.
    """

    def __init__(
        self,
        input: int,
        size: int,
        direction: Direction,
        projection: int = 0,
        cell_clip: float = 0.0,
        state_clip: float = 0.0,
    ) -> None:
        """Build the layer.

        Args:
            input: F.
            size: the width of a cell.
            direction: "forward" or "backward".
            projection: P; 0: no projection.
            cell_clip: the largest magnitude of a cell; 0: no limit.
            state_clip: the largest magnitude of a projected state; 0: no limit.
        """
        super().__init__()
        self.inner = Lstm(input, size, direction, projection)
        self.cell_clip, self.state_clip = cell_clip, state_clip

    def forward(self, x: Tensor, sequences: Sequences) -> Tensor:
        """Read each sequence: x `[N, F]` -> `[N, P]` float32."""
        clipped = self.cell_clip or self.state_clip
        if not clipped and (x.is_cuda or not self.inner.lstm.proj_size):
            return self.inner(x, sequences.lengths)
        if not sequences.total:
            return x.new_zeros(0, self.inner.size)
        order, inverse, sizes = _packed_order(sequences.lengths, self.inner.direction, x.device)
        w_in, w_state, b_in, b_state, *w_out = self.inner.lstm.parameters()
        packed = _reordered(x, order, inverse).to(w_in.dtype)
        with torch.autocast(x.device.type, enabled=False):
            gates = F.linear(packed, w_in, b_in + b_state)  # [N, 4 size]
            h = packed.new_zeros(sizes[0], self.inner.size)
            c = packed.new_zeros(sizes[0], self.inner.lstm.hidden_size)
            states = []
            for current in torch.split(gates, sizes):
                h, c = h[: len(current)], c[: len(current)]
                i, f, g, o = (current + F.linear(h, w_state)).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                c = c.clamp(-self.cell_clip, self.cell_clip) if self.cell_clip else c
                h = o.sigmoid() * c.tanh()
                h = F.linear(h, *w_out) if w_out else h
                h = h.clamp(-self.state_clip, self.state_clip) if self.state_clip else h
                states.append(h)
        return _reordered(torch.cat(states), inverse, order)


class _Reordered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.index_select(0, *ctx.saved_tensors), None, None


def _reordered(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """Return `x[order]`, whose gradient is also an index_select; PyTorch's is a slower
    index_add."""
    return _Reordered.apply(x, order, inverse)  # type: ignore[no-any-return, no-untyped-call]


def _packed_order(
    counts: Sequence[int], direction: Direction, device: torch.device
) -> tuple[Tensor, Tensor, list[int]]:
    """Return `order`, `inverse` and `sizes` of a `Packing`. In the direction "backward", the packed
    rows of each sequence begin at its end."""
    packing = pack(counts, device)
    order, inverse = packing.order, packing.inverse
    if direction == "backward":
        mirror = _mirror(counts, device)
        order, inverse = mirror[order], inverse[mirror]
    return order, inverse, packing.sizes


def _mirror(counts: Sequence[int], device: torch.device) -> Tensor:
    """Return, for each row, the row at the same distance from the end of its sequence as this one
    is from the start, `[W]`."""
    lengths = torch.tensor(counts, dtype=torch.long)
    ends = lengths.cumsum(0)
    first_and_last = (2 * ends - lengths - 1).repeat_interleave(lengths)
    return send(first_and_last - torch.arange(int(ends[-1])), device)
