"""BERT's products in 8-bit integers, for processors that have them (AVX-512 VNNI, AVX-VNNI, AMX).

    x_j ~ m_j + s c_j (u_j - 128)      u in 0..255, m the middle of column j's range
    W_ij c_j ~ t_i w_ij                w in -127..127 (Jacob et al. 2018, section 2)

A few columns of x are far larger than the rest. c_j = (range of x_j)^a / (largest |W_ij|)^(1-a)
moves most of that into the weights (SmoothQuant: Xiao et al. 2023, section 4). Ranges are those of
a sample of text, fixed when the model is packed, so a vector does not depend on its neighbours.
Products where 8 bits are still too few stay in bfloat16, the worst first, until the sample's
vectors are near enough to float32's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertwright.checkpoint.export.exported import has_vnni
from bertwright.errors import ConfigError
from bertwright.inference.backends.packed import PackedBert, PackedLayer, Product
from bertwright.nn.products import has_onednn

LEAST_COSINE = 0.99
ROOM = 1.05
"""Times the range of the sample, for what the sample does not show."""
ROWS_KEPT = 64
"""Rows of a batch that errors are measured on."""
AT_ONCE = 1 << 19
"""Numbers in float32 at a time, so that they stay in the processor's cache."""
MOST_KEPT = 0.5
"""Fraction of products that may stay in bfloat16; more is an error."""
MOVED = 0.8
"""a; with 0.5 the inputs that GELU gives err ten times as much."""
_PRODUCTS = ("qkv", "output", "wide", "narrow")


class Watched(Product):
    """A product that notes its inputs: the range of every column, and some rows."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.weight, product.bias)
        self.low, self.high = torch.zeros(2, self.weight.shape[1])
        self.rows: list[Tensor] = []

    def see(self, x: Tensor) -> None:
        """Note an input `[N, in]`."""
        low, high = x.float().aminmax(dim=0)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)
        self.rows.append(x[:: max(1, len(x) // ROWS_KEPT)].clone())

    def forward(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """See `Product`."""
        self.see(x)
        return super().forward(x, after, how)

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """`x W^T + b + other`"""
        self.see(x)
        return super().add(x, other)


class Int8Product(Product):
    """`x W^T + b` of 8-bit integers, sums in 32 bits, the result bfloat16."""

    def __init__(self, product: Product, low: Tensor, high: Tensor) -> None:
        """Inputs are expected between `low` and `high`, `[in]` each."""
        nn.Module.__init__(self)
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
        # by the rounded weights: where x is near 0, as after GELU, what was added goes off again
        self.offset = bias + rounded @ (middle / columns) * self.scales
        self.inverse = 1 / (self.step * columns)
        self.shift = -middle * self.inverse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (Product(self.weight, self.bias), self.low, self.high)

    def forward(self, x: Tensor, after: str = "none", how: str = "") -> Tensor:
        """See `Product`."""
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
        """u - 128 of x `[N, in]`, as int8: torch turns numbers into uint8 nine times as slowly."""
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
        """`x W^T + b + other`"""
        return self.forward(x).add_(other)


def has_int8() -> bool:
    """Whether this processor multiplies 8-bit integers in one instruction, and torch uses it."""
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        has_onednn()
        and hasattr(torch.ops.onednn, "qlinear_pointwise")
        and capability.startswith(("AVX512", "AMX"))
        and has_vnni()
    )


def make_int8(
    packed: PackedBert, look: Callable[[], object], vectors: Callable[[], Tensor], reference: Tensor
) -> list[str]:
    """Turn the products of a bfloat16 `PackedBert` into 8-bit ones, in place.

    Args:
        packed: in bfloat16.
        look: runs `packed` as it is over the sample, every token in every layer needed: ranges are
            of all of them, wherever vectors are read.
        vectors: vectors of a sample of texts by `packed` as it is, `[n, H]`.
        reference: the same in float32.

    Returns:
        Products left in bfloat16, as `layer 0 narrow`.

    Raises:
        ConfigError: no such processor, or the vectors are too far from float32's.
    """
    if not has_int8():
        raise ConfigError(
            "this processor has no 8-bit products that torch can use (AVX-512 VNNI); "
            "use --precision bf16 or fp32"
        )
    packed.open()
    layers = cast(list[PackedLayer], list(packed.layers))
    slots = [(layer, name) for layer in layers for name in _PRODUCTS]
    plain = {slot: getattr(*slot) for slot in slots}
    watched = {slot: Watched(product) for slot, product in plain.items()}
    _put(watched)
    look()
    # products above the highest layer needed had no input and stay as they are
    slots = [slot for slot in slots if watched[slot].rows]
    _put({slot: product for slot, product in plain.items() if slot not in slots})
    seen = {slot: watched[slot] for slot in slots}
    integers = {slot: Int8Product(plain[slot], each.low, each.high) for slot, each in seen.items()}
    noise = {
        slot: _noise(plain[slot], integers[slot], torch.cat(seen[slot].rows)) for slot in slots
    }
    by_noise = sorted(slots, key=lambda slot: -noise[slot])
    _put(integers)
    kept: list[tuple[PackedLayer, str]] = []
    while (cosine := least_cosine(vectors(), reference)) < LEAST_COSINE:
        if len(kept) >= MOST_KEPT * len(slots):
            _put(plain)
            raise ConfigError(
                f"8-bit integers are too coarse for this model: of a sample of {len(reference)} "
                f"texts the vectors' least cosine with float32's is {cosine:.4f}, below "
                f"{LEAST_COSINE}; use --precision bf16"
            )
        more = by_noise[len(kept) : len(kept) + max(1, len(slots) // 12)]
        _put({slot: plain[slot] for slot in more})
        kept += more
    numbers = {id(layer): number for number, layer in enumerate(layers, 1)}
    return [f"layer {numbers[id(layer)]} {name}" for layer, name in kept]


def _noise(exact: Product, coarse: Product, x: Tensor) -> float:
    """Mean square of the error over the mean square of the result."""
    with torch.inference_mode():
        right = exact(x).float()
        return float((coarse(x) - right).square().sum() / right.square().sum().clamp_min(1e-12))


def least_cosine(vectors: Tensor, reference: Tensor) -> float:
    """The smallest cosine of two matrices' rows, and -1 where one is not finite."""
    cosines = torch.nn.functional.cosine_similarity(vectors.float(), reference.float())
    return float(cosines.min()) if bool(cosines.isfinite().all()) else -1.0


def _put(products: Mapping[tuple[PackedLayer, str], Product]) -> None:
    for (layer, name), product in products.items():
        setattr(layer, name, product)
