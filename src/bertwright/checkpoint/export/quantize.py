"""An ONNX graph with weights of 8 bits: for ONNX Runtime by its own tool, for OpenVINO by hand.

A weight becomes `round(w / s)` in int8 with a scale `s = max |w| / 127` of its own for each output
channel of a product and each row of a table. ONNX Runtime also quantizes activations while it runs
(`MatMulInteger`), OpenVINO gets the weights behind `DequantizeLinear` and decides itself how to
compute; it is never given 8-bit activations that it has not chosen.

x86 before VNNI adds two 8-bit products in 16 bits and cuts what does not fit. There the weights
that ONNX Runtime gets have 7 bits, whose sums always fit.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.arrays import Float32s

_SMALLEST = 256  # numbers: a smaller weight is not worth a scale


def has_vnni() -> bool:
    """Whether this processor adds products of 8-bit integers in 32 bits (AVX-512 VNNI)."""
    check = getattr(torch.cpu, "_is_avx512_vnni_supported", None) or getattr(
        torch.cpu, "_is_vnni_supported", None
    )
    return bool(check()) if check is not None else False


def weight_bits() -> int:
    """Bits of a weight that this processor computes with and cuts no sum."""
    cuts = platform.machine() in ("x86_64", "AMD64") and not (has_vnni() or _has_avx_vnni())
    return 7 if cuts else 8


def _has_avx_vnni() -> bool:
    """Whether Linux tells of the same products in 256 bits, which torch does not tell of."""
    told = Path("/proc/cpuinfo")
    return told.is_file() and "avx_vnni" in told.read_text("utf-8", "replace").split()


def quantize_for_onnx(path: Path) -> None:
    """Replace the float32 graph of a file by one that ONNX Runtime runs in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # The tool turns some weights around and then trips over the shapes that the graph notes.
    model = onnx.load(path)
    del model.graph.value_info[:]
    _replace(model, path)
    small = path.with_name(f"int8-{path.name}")
    large = path.with_name(f"{path.name}.data").exists()
    quantize_dynamic(
        path,
        small,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
        reduce_range=weight_bits() == 7,
        weight_type=QuantType.QInt8,
        use_external_data_format=large,
    )
    _replace(onnx.load(small), path)
    for left in path.parent.glob(f"{small.name}*"):
        left.unlink()


def weights_to_int8(path: Path) -> None:
    """Replace the weights of products and tables in a file by int8 and a scale a channel."""
    import onnx

    model = onnx.load(path)
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    axes: dict[str, set[int]] = {}
    for node in graph.node:
        place = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        if place is not None and node.input[place] in weights:
            axes.setdefault(node.input[place], set()).add(place)
    made: list[Any] = []
    for name, found in axes.items():
        array = onnx.numpy_helper.to_array(weights[name])
        if array.dtype != np.float32 or array.ndim != 2 or array.size < _SMALLEST:
            continue
        axis = min(found)  # a table that is also a product's weight keeps a scale a row
        small, scale = to_int8(array, axis)
        graph.initializer.remove(weights[name])
        graph.initializer.extend(
            [
                onnx.numpy_helper.from_array(small, f"{name}_int8"),
                onnx.numpy_helper.from_array(scale, f"{name}_scale"),
            ]
        )
        made.append(
            onnx.helper.make_node(
                "DequantizeLinear",
                [f"{name}_int8", f"{name}_scale"],
                [name],
                name=f"{name}_dequantized",
                axis=axis,
            )
        )
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    _replace(model, path)


def to_int8(array: Float32s, axis: int) -> tuple[npt.NDArray[np.int8], Float32s]:
    """A matrix in 8 bits.

    Args:
        array: two axes.
        axis: the one along which every place has a scale.

    Returns:
        int8 of the same shape, and the scales; the product of the two is the matrix, within half a
        scale.
    """
    largest = np.abs(array).max(axis=1 - axis)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    wide = scale[:, None] if axis == 0 else scale[None]
    return np.clip(np.rint(array / wide), -127, 127).astype(np.int8), scale


def _replace(model: Any, path: Path) -> None:
    """Write a graph in place of another, its weights beside it where they are over 2 GB."""
    import onnx

    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)
    large = sum(tensor.ByteSize() for tensor in model.graph.initializer) >= 1 << 31
    onnx.save(model, path, save_as_external_data=large, location=beside.name)
