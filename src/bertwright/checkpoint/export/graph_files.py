"""Write the files of exported graphs: torch's exporter writes ONNX, OpenVINO converts that file,
and int8 stores the weights of matrix products and embeddings in 8 bits:

| | weights | activations |
|---|---|---|
| ONNX Runtime | int8 per channel; 7 bits without VNNI | quantized at run time, per product |
| OpenVINO | int8 per channel, embeddings per row | chosen by OpenVINO: f32, or 8 bits in groups |

A weight becomes `round(w / s)` in int8, with a separate scale `s = max |w| / 127` for each output
channel of a product and for each row of an embedding table. x86 processors without VNNI add two
8-bit products in 16 bits, which saturate; for them, ONNX Runtime gets weights of 7 bits, whose sums
always fit.

Weights of 2 GiB or more are in `NAME.onnx.data` beside the graph.
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

_SMALLEST = 256  # numbers; a smaller weight is not worth a scale and stays in float32

OPSET = 23
"""The newest ONNX opset that torch 2.10, ONNX Runtime 1.22 and OpenVINO 2025 all support."""

EXPORTERS = ("onnx", "onnxscript")
"""The packages that are needed to write a graph for any runtime."""

_SIZES = {"batch": 3, "choices": 4, "sequence": 5, "past": 7, "source": 6, "all": 12}
"""The axis sizes of the traced example. None is 1 and all differ, because the exporter would
otherwise treat a size as fixed."""


def versions(runtime: Runtime) -> dict[str, str]:
    """Return the versions of torch and of the packages that write and run a graph."""
    names = ("torch", *EXPORTERS, PACKAGES[runtime])
    return {name: importlib.metadata.version(name) for name in names}


def write_onnx(graph: Graph, path: Path) -> None:
    """Export a graph, which must be in eval mode, to an ONNX file."""
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
    """Convert a float32 ONNX file to the files of a runtime: `NAME.onnx` itself, or
    `openvino_NAME.xml` and `.bin`.
    """
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
    except RuntimeError as error:  # also if the disk is full, which the message does not say
        free = shutil.disk_usage(path.parent).free / 1e6
        raise BertwrightError(
            f"OpenVINO could not write the model ({error}; {free:.0f} MB are free on its disk): "
            "free some space, or choose another --out"
        ) from error


def runtime_file(path: Path, runtime: Runtime) -> Path:
    """Return the file that a runtime opens for the graph that was written to an ONNX file."""
    return path if runtime == "onnx" else path.with_name(f"openvino_{path.stem}.xml")


def remove_onnx(folder: Path) -> None:
    """Delete the ONNX files of a folder, after they were converted for another runtime."""
    for left in folder.glob("*.onnx*"):
        left.unlink()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings and log messages of the exporters; errors are still raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def quantize_for_onnx(path: Path) -> None:
    """Replace the float32 graph in a file with one that ONNX Runtime computes in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # `quantize_dynamic` transposes some weights, which then contradict the shapes in `value_info`.
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
    """Replace the weights of products and embedding tables in a file with int8 weights and one
    scale per channel or row."""
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
        axis = min(found)  # an embedding table that is also used in a product has scales per row
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
    """Quantize a matrix to 8 bits.

    Args:
        axis: the axis along which each index has a scale of its own.

    Returns:
        The int8 matrix of the same shape, and the scales. Their product differs from the matrix by
        at most half a scale.
    """
    largest = np.abs(array).max(axis=1 - axis)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    wide = scale[:, None] if axis == 0 else scale[None]
    return np.clip(np.rint(array / wide), -127, 127).astype(np.int8), scale


def _replace(model: Any, path: Path) -> None:
    """Replace the graph in a file. Weights of 2 GiB or more are written to a file beside it."""
    import onnx

    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)
    large = sum(tensor.ByteSize() for tensor in model.graph.initializer) >= 1 << 31
    onnx.save(model, path, save_as_external_data=large, location=beside.name)
