"""Modules to files: torch's own exporter writes ONNX, OpenVINO converts that file, and int8 stores
the weights of products and embeddings in 8 bits, a scale a channel:

| | weights | activations |
|---|---|---|
| ONNX Runtime | int8 a channel; without VNNI 7 bits | quantized while it runs, a scale a product |
| OpenVINO | int8 a channel, embeddings a row | as OpenVINO chooses: f32, or 8 bits in groups |

A weight becomes `round(w / s)` in int8 with a scale `s = max |w| / 127` of its own for each output
channel of a product and each row of a table. x86 before VNNI adds two 8-bit products in 16 bits,
which saturate; there the weights that ONNX Runtime gets have 7 bits, whose sums always fit.

Weights of 2 GB and more are in `NAME.onnx.data` beside the graph.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.arrays import Float32s
from bertwright.checkpoint.export.exported import PACKAGES, Runtime, weight_bits
from bertwright.checkpoint.export.padded import PAST, Graph
from bertwright.errors import BertwrightError

_SMALLEST = 256  # numbers: a smaller weight is not worth a scale

OPSET = 23
"""The newest that torch 2.10, ONNX Runtime 1.22 and OpenVINO 2025 all know."""

EXPORTERS = ("onnx", "onnxscript")
"""Packages that write a graph, whatever runs it."""

_SIZES = {"batch": 3, "choices": 4, "sequence": 5, "past": 7, "source": 6, "all": 12}
"""Of the traced example: neither 1 nor alike, or the exporter would take a size for fixed."""


def versions(runtime: Runtime) -> dict[str, str]:
    """Of torch and of the packages that write a graph and run it."""
    names = ("torch", *EXPORTERS, PACKAGES[runtime])
    return {name: importlib.metadata.version(name) for name in names}


def write_onnx(graph: Graph, path: Path) -> None:
    """Trace a graph in eval mode.

    Raises:
        BertwrightError: torch cannot export it.
    """
    names = {size for axes in graph.inputs.values() for size in axes if isinstance(size, str)}
    dims = {name: torch.export.Dim(name, min=0) for name in sorted(names)}
    examples, sizes = [], []
    for name, axes in graph.inputs.items():
        shape = tuple(_SIZES[size] if isinstance(size, str) else size for size in axes)
        kind = torch.float32 if name.startswith(PAST) else torch.int64
        examples.append(torch.zeros(shape, dtype=kind))
        sizes.append({n: dims[size] for n, size in enumerate(axes) if isinstance(size, str)})
    try:
        with torch.no_grad():
            program = torch.onnx.export(
                graph,
                (*examples[:2], examples[2:]),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=(*sizes[:2], sizes[2:]),
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise BertwrightError(f"torch could not export this model: {error}") from error
    assert program is not None
    program.save(str(path))


def finish_model(path: Path, runtime: Runtime, int8: bool) -> None:
    """Turn an ONNX file, in float32, into the files of the runtime: `NAME.onnx` itself, or
    `openvino_NAME.xml` and `.bin`."""
    if runtime == "onnx":
        if int8:
            quantize_for_onnx(path)
        return
    import openvino

    if int8:
        weights_to_int8(path)
    model = openvino.convert_model(str(path))
    try:
        openvino.save_model(model, str(runtime_file(path, runtime)), compress_to_fp16=False)
    except RuntimeError as error:  # of a full disk too, and it does not say so
        free = shutil.disk_usage(path.parent).free / 1e6
        raise BertwrightError(
            f"OpenVINO could not write the model ({error}; {free:.0f} MB are free on its disk): "
            "free some space, or choose another --out"
        ) from error


def runtime_file(path: Path, runtime: Runtime) -> Path:
    """What a runtime opens in place of an ONNX file."""
    return path if runtime == "onnx" else path.with_name(f"openvino_{path.stem}.xml")


def remove_onnx(folder: Path) -> None:
    """Delete the ONNX files of a folder, where another runtime's are there."""
    for left in folder.glob("*.onnx*"):
        left.unlink()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' notes on packages nobody needs; errors are raised all the same."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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
        axis = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        if axis is not None and node.input[axis] in weights:
            axes.setdefault(node.input[axis], set()).add(axis)
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
        axis: the one along which every index has a scale.

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
