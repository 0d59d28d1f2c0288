"""BERT's matrix products in 8-bit integers, for processors with AVX-512 VNNI and without AMX.

On such a processor (an AMD EPYC), vectors are computed 2.6 times as fast as by packed layers in
float32, the faster one of the others where bfloat16 has no products (Intel's Cascade Lake and Ice
Lake), and 1.4 times as fast as in bfloat16. With AMX, bfloat16 is 1.2 to 1.3 times as fast as this
file (benchmarks/README.md, "Embedding").

    x_j ~ m_j + s c_j (u_j - 128)      u in 0..255, m the middle of column j's range
    W_ij c_j ~ t_i w_ij                w in -127..127 (Jacob et al. 2018, section 2)

A few columns of x are far larger than the rest. c_j = (range of x_j)^a / (largest |W_ij|)^(1-a)
moves most of that into the weights (SmoothQuant: Xiao et al. 2023, section 4). Ranges are measured
on a sample of text and fixed when the model is packed, so a vector does not depend on its
neighbours in the batch. Products for which 8 bits are too few stay in bfloat16, those with the
largest error first, until the sample's vectors are close enough to float32's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from bertwright.checkpoint.export.exported import has_vnni
from bertwright.errors import ConfigError
from bertwright.inference.backends.agree import LEAST_COSINE, least_cosine
from bertwright.inference.backends.packed import PackedLayer, PackedStack, Product
from bertwright.nn.products import has_onednn

ROOM = 1.05
"""The factor by which the sample's range is widened, for values that the sample does not have."""
ROWS_KEPT = 64
"""The number of rows of a batch on which errors are measured."""
AT_ONCE = 1 << 19
"""The number of float32 values at a time, so that they stay in the processor's cache."""
MOST_KEPT = 0.5
"""The largest fraction of products that may stay in bfloat16; more is an error."""
MOVED = 0.8
"""The exponent a; with 0.5, the inputs after GELU have ten times the error."""
_PRODUCTS = ("qkv", "output", "wide", "narrow")


class Watched(Product):
    """A product that records its inputs: the range of every column, and some rows."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.weight, product.bias)
        self.low, self.high = torch.zeros(2, self.weight.shape[1])
        self.rows: list[Tensor] = []

    def see(self, x: Tensor) -> None:
        """Record an input `[N, in]`."""
        low, high = x.float().aminmax(dim=0)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)
        self.rows.append(x[:: max(1, len(x) // ROWS_KEPT)].clone())

    def __call__(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """Record the input and compute the product."""
        self.see(x)
        return super().__call__(x, after, how)

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """Record the input and return `x W^T + b + other`."""
        self.see(x)
        return super().add(x, other)


class Int8Product(Product):
    """`x W^T + b` in 8-bit integers, with sums in 32 bits and the result in bfloat16."""

    def __init__(self, product: Product, low: Tensor, high: Tensor) -> None:
        """Quantize the weights for inputs whose columns lie between `low` and `high`, `[in]`."""
        self.weight, self.bias = product.weight, product.bias
        self.low, self.high = low, high
        weight, bias = product.weight.float(), product.bias.float()
        middle = (high + low) / 2
        reach = ((high - low) / 2).clamp_min(1e-6)
        largest = weight.abs().amax(0).clamp_min(1e-6)
        columns = reach**MOVED / largest ** (1 - MOVED)  # c
        self.step = ROOM * float((reach / columns).max()) / 127  # s
        scaled = weight * columns
        self.scales = scaled.abs().amax(1).clamp_min(1e-8) / 127  # t
        rounded = (scaled / self.scales[:, None]).round()
        self.laid_out = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        self.zeros = torch.zeros(len(rounded), dtype=torch.int32)
        # computed with the rounded weights, so that for x near 0, as after GELU, the shift by the
        # middle cancels exactly
        self.offset = bias + rounded @ (middle / columns) * self.scales
        self.inverse = 1 / (self.step * columns)
        self.shift = -middle * self.inverse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (Product(self.weight, self.bias), self.low, self.high)

    def __call__(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """Compute the product in 8-bit integers; see `Product`."""
        u = self.quantize(x).view(torch.uint8).bitwise_xor_(128)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            u,
            self.step,
            128,
            self.laid_out,
            self.scales,
            self.zeros,
            self.offset,
            1.0,
            0,
            torch.bfloat16,
            after,
            [],
            how or "none",
        )
        return result

    def quantize(self, x: Tensor) -> Tensor:
        """Return `u - 128` as int8 for x `[N, in]`.

        The result is not uint8, because torch's conversion to uint8 takes nine times as long.
        """
        u = torch.empty(x.shape, dtype=torch.int8)
        most = max(1, AT_ONCE // x.shape[1])
        room = torch.empty(min(most, len(x)), x.shape[1])
        for start in range(0, len(x), most):
            rows = x[start : start + most]
            exact = room[: len(rows)].copy_(rows)
            torch.addcmul(self.shift, exact, self.inverse, out=exact)
            u[start : start + most] = exact.round_().clamp_(-128, 127)
        return u

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """Return `x W^T + b + other`."""
        return self(x).add_(other)


def bfloat16_is_faster() -> bool:
    """Return whether products in bfloat16 are faster than those of this file: with AMX."""
    return bool(torch.cpu._is_amx_tile_supported())


def has_int8() -> bool:
    """Return whether this processor has instructions for 8-bit products, and torch uses them."""
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        has_onednn()
        and hasattr(torch.ops.onednn, "qlinear_pointwise")
        and capability.startswith(("AVX512", "AMX"))
        and has_vnni()
    )


def make_int8(
    packed: PackedStack,
    look: Callable[[], object],
    vectors: Callable[[], Tensor],
    reference: Tensor,
) -> list[str]:
    """Replace the products of a bfloat16 `PackedStack` by 8-bit ones, in place.

    Args:
        packed: the model in bfloat16.
        look: runs `packed` over the sample and computes all tokens of every layer that is needed,
            because ranges are measured over all tokens, not only over those that are read.
        vectors: returns the vectors of a sample of texts by `packed` in its current state, `[n,
            H]`.
        reference: the same vectors in float32.

    Returns:
        The products that stay in bfloat16, such as `layer 0 narrow`.

    Raises:
        ConfigError: the processor has no such products, or the vectors are too far from float32's.
    """
    if not has_int8():
        raise ConfigError(
            "this processor has no 8-bit products that torch can use (AVX-512 VNNI); "
            "use --precision bf16 or fp32"
        )
    layers = packed.layers
    slots = [(layer, name) for layer in layers for name in _PRODUCTS]
    plain = {slot: getattr(*slot) for slot in slots}
    watched = {slot: Watched(product) for slot, product in plain.items()}
    _put(watched)
    look()
    # products above the highest layer that is needed had no input, and are not replaced
    slots = [slot for slot in slots if watched[slot].rows]
    _put({slot: product for slot, product in plain.items() if slot not in slots})
    seen = {slot: watched[slot] for slot in slots}
    integers = {slot: Int8Product(plain[slot], each.low, each.high) for slot, each in seen.items()}
    noise = {
        slot: _noise(plain[slot], integers[slot], torch.cat(seen[slot].rows)) for slot in slots
    }
    by_noise = sorted(slots, key=lambda slot: -noise[slot])
    _put(integers)
    in_bfloat16: list[tuple[PackedLayer, str]] = []
    while (cosine := least_cosine(vectors(), reference)) < LEAST_COSINE:
        if len(in_bfloat16) >= MOST_KEPT * len(slots):
            _put(plain)
            raise ConfigError(
                f"8-bit integers are too coarse for this model: of a sample of {len(reference)} "
                f"texts the vectors' least cosine with float32's is {cosine:.4f}, below "
                f"{LEAST_COSINE}; use --precision bf16"
            )
        more = by_noise[len(in_bfloat16) : len(in_bfloat16) + max(1, len(slots) // 12)]
        _put({slot: plain[slot] for slot in more})
        in_bfloat16 += more
    numbers = {id(layer): number for number, layer in enumerate(layers, 1)}
    return [f"layer {numbers[id(layer)]} {name}" for layer, name in in_bfloat16]


def _noise(exact: Product, coarse: Product, x: Tensor) -> float:
    """Return the mean square of the error divided by the mean square of the result."""
    with torch.inference_mode():
        right = exact(x).float()
        return float((coarse(x) - right).square().sum() / right.square().sum().clamp_min(1e-12))


def _put(products: Mapping[tuple[PackedLayer, str], Product]) -> None:
    for (layer, name), product in products.items():
        setattr(layer, name, product)
