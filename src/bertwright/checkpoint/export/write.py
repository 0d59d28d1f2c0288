"""`bertwright export`: a checkpoint as ONNX or OpenVINO, held against ours before it appears.

```
DIR/  model.onnx, or openvino_model.xml and .bin     inputs and outputs: see padded.py
      config.json  tokenizer files  task.json (with a task head)
      modules.json and its parts      of a folder of sentence-transformers: pooling, dense layers
      export.json     what it is, what it was written with, and how far it is from ours
      MANIFEST.json   size and SHA-256 of every file
```

ONNX is written by torch's own exporter; OpenVINO converts that file. int8 stores the weights of
products and embeddings in 8 bits, a scale a channel:

| | weights | activations |
|---|---|---|
| ONNX Runtime | int8 a channel; without VNNI 7 bits | quantized while it runs, a scale a product |
| OpenVINO | int8 a channel, embeddings a row | as OpenVINO chooses: f32, or 8 bits in groups |

A weight becomes `round(w / s)` in int8 with a scale `s = max |w| / 127` of its own for each output
channel of a product and each row of a table. x86 before VNNI adds two 8-bit products in 16 bits,
which saturate; there the weights that ONNX Runtime gets have 7 bits, whose sums always fit.

Models of 2 GB and more have their weights in `model.onnx.data` beside the graph.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import logging
import platform
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_folder, refuse_folder, refuse_source, write_manifest
from bertwright.checkpoint import checkpoint, model_folder, task_heads
from bertwright.checkpoint.export.check import SAMPLE, check_random, check_text
from bertwright.checkpoint.export.exported import (
    FORMAT,
    ONNX,
    OPENVINO,
    Runtime,
    open_unverified,
    weight_bits,
)
from bertwright.checkpoint.export.padded import INPUTS, Padded
from bertwright.checkpoint.formats import only_bert
from bertwright.checkpoint.huggingface.bert import BERT, architecture
from bertwright.checkpoint.model_folder import EXPORT
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sources import read_tokenizer
from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, MissingExtra
from bertwright.objectives.objective import Learner

_SMALLEST = 256  # numbers: a smaller weight is not worth a scale

OPSET = 23
"""The newest that torch 2.10, ONNX Runtime 1.22 and OpenVINO 2025 all know."""

ENCODER = "encoder"
"""What `head` is to have vectors, whatever heads there are."""

_PACKAGES: dict[Runtime, tuple[str, ...]] = {
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "openvino": ("onnx", "onnxscript", "openvino"),
}


def export(
    source: str | Path,
    out: Path,
    runtime: Runtime,
    *,
    head: str | None = None,
    layers: Sequence[int] = (),
    int8: bool = False,
    sample: Sequence[str] | None = None,
    least: float = 0.95,
    overwrite: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Write a checkpoint in the form of another runtime.

    Args:
        source: a checkpoint, a run or a Hugging Face folder.
        out: the folder to write.
        runtime: whose form.
        head: `masked_lm`, `next_sentence`, a task's name, or `encoder`; unset: the task's, if there
            is one, else the encoder's vectors.
        layers: without a head, the layers to give (0 the embeddings, negative from the top) in
            place of the last and the pooler. Higher ones are left out of the graph.
        int8: weights of 8 bits.
        sample: texts that int8 is evaluated on; unset: 32 sentences of our own.
        least: mean cosine, agreement or correlation on them below which int8 is an error.
        overwrite: replace what stands in `out`, if Bertwright wrote it.
        on_step: called with what is done next.

    Returns:
        What `export.json` holds.

    Raises:
        MissingExtra: a package is not installed.
        ConfigError: `out` is there, is no folder of ours or holds the source; no such head or
            layer, or one that rectangles of tokens cannot have.
        DataError: no model, texts that are none or too few, or a folder of sentence-transformers
            whose vectors are not made as ours.
        BertwrightError: what was written differs from ours.
    """
    for package in _PACKAGES[runtime]:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("export", package, f"export to {runtime}")
    refuse_folder(out, overwrite)
    loaded = checkpoint.load(source)
    refuse_source(out, loaded.folder)
    config = only_bert(loaded.config, "an export")
    tokenizer = read_tokenizer(loaded.folder, config)
    learner = loaded.learner.eval().requires_grad_(False)
    head = _head(head, learner, loaded.tasks, str(loaded.folder))
    if layers and head is not None:
        raise ConfigError(f"layers are vectors; the head {head} has its own: leave one of them out")
    task = loaded.tasks.get(head) if head is not None else None
    if task is not None and task.kind == "generation":
        raise ConfigError(
            f"an export gives the scores of a text at once, and the head {head} writes a text "
            "token by token: use bertwright predict"
        )
    padded = Padded(learner, head, task, _numbers(layers, config)).eval()
    texts = [text for text in SAMPLE if text.strip()] if sample is None else list(sample)
    if int8 and not any(text.strip() for text in texts):
        raise DataError("the sample has no text: give a file with a text a line")
    scored = task is not None and task.kind in ("regression", "multiple-choice")
    if int8 and scored and len(texts) < 2:
        raise DataError("int8 is evaluated by a correlation here: give two texts or more")
    vectors = head is None and not layers
    pooling = sentence_transformers.read_defaults(loaded.folder) if vectors else None
    facts: dict[str, Any] = {
        "format": FORMAT,
        "runtime": runtime,
        "int8": int8,
        "weight_bits": weight_bits() if int8 and runtime == "onnx" else None,
        "opset": OPSET,
        "head": head,
        "kind": task.kind if task is not None else None,
        "inputs": list(INPUTS),
        "outputs": {
            name: "token" if name in padded.of_tokens else "sequence" for name in padded.outputs
        },
        "layers": list(padded.encoder.layers) if head is None else [],
        "pooling": None if pooling is None else pooling.pooling,
        "longest": config.max_position_embeddings,
        "crf": _crf(padded.head),
        "versions": {p: importlib.metadata.version(p) for p in ("torch", *_PACKAGES[runtime])},
    }
    with atomic_folder(out, overwrite) as folder, _quiet():
        on_step("writing the graph")
        _write_onnx(padded, folder / ONNX, config)
        (folder / EXPORT).write_text(json.dumps(facts))
        model_folder.copy_tokenizer(loaded.folder, folder, config.max_position_embeddings)
        _write_config(folder, config, head, task)
        if pooling is not None:
            sentence_transformers.write_defaults(folder, pooling, config.hidden_size)
        _finish_model(folder, runtime, False)
        on_step("comparing with ours on random lengths")
        exported = open_unverified(folder, threads=torch.get_num_threads())
        segments = config.type_vocab_size
        size = config.vocab_size
        facts["largest_difference"] = check_random(learner, exported, task, size, segments)
        if int8:
            on_step("to 8 bits, and comparing on text")
            del exported
            _finish_model(folder, runtime, True)
            small = open_unverified(folder, threads=torch.get_num_threads())
            figures = check_text(learner, small, task, tokenizer, texts, least)
            facts["int8_on_text"] = {
                "sample": "own" if sample is None else "given",
                "processor": torch.backends.cpu.get_cpu_capability(),
                "machine": platform.machine(),
                **figures,
            }
        if runtime != "onnx":
            for left in folder.glob(f"{ONNX}*"):
                left.unlink()
        text = json.dumps(facts, indent=1, allow_nan=False)
        (folder / EXPORT).write_text(text + "\n", encoding="utf-8")
        write_manifest(folder)
    return facts


def _head(
    requested: str | None, learner: Learner, tasks: dict[str, TaskConfig], where: str
) -> str | None:
    """The head that is meant; None: the encoder's vectors."""
    if requested == ENCODER:
        return None
    if requested is None:
        if len(tasks) > 1:
            raise ConfigError(
                f"{where} has several tasks; name one with --task: {', '.join(tasks)}, or {ENCODER}"
            )
        return next(iter(tasks), None)
    if requested not in learner.objectives:
        raise ConfigError(
            f"{where} has no head {requested!r}; it has {', '.join([*learner.objectives, ENCODER])}"
        )
    return requested


def _numbers(layers: Sequence[int], config: BertConfig) -> tuple[int, ...]:
    """Layers counted from 0, the embeddings."""
    if not layers:
        return ()
    numbers = VectorConfig(tuple(layers)).numbers(config.num_hidden_layers)
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"layers {', '.join(map(str, layers))} name one layer twice")
    return numbers


def _write_onnx(padded: Padded, path: Path, config: BertConfig) -> None:
    """Trace the computation with every size but the widths open."""
    # Neither 1 nor a size of the model, or the exporter would take a size for fixed.
    shape = (2, 3, 5) if padded.choices else (3, 5)
    length = min(shape[-1], config.max_position_embeddings)
    # Three tensors: of one tensor given twice the exporter makes one input.
    inputs = tuple(torch.full((*shape[:-1], length), n, dtype=torch.int64) for n in (1, 1, 0))
    names = ("batch", "choices", "sequence") if padded.choices else ("batch", "sequence")
    sizes = {axis: torch.export.Dim(name) for axis, name in enumerate(names)}
    try:
        with torch.no_grad():
            program = torch.onnx.export(
                padded,
                inputs,
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=(sizes, sizes, sizes),
                input_names=list(INPUTS),
                output_names=padded.outputs,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise BertwrightError(f"torch could not export this model: {error}") from error
    assert program is not None
    program.save(str(path))


def _finish_model(folder: Path, runtime: Runtime, int8: bool) -> None:
    """Turn `model.onnx`, in float32, into the files of the runtime."""
    path = folder / ONNX
    if runtime == "onnx":
        if int8:
            quantize_for_onnx(path)
        return
    import openvino

    if int8:
        weights_to_int8(path)
    model = openvino.convert_model(str(path))
    try:
        openvino.save_model(model, str(folder / OPENVINO), compress_to_fp16=False)
    except RuntimeError as error:  # of a full disk too, and it does not say so
        free = shutil.disk_usage(folder).free / 1e6
        raise BertwrightError(
            f"OpenVINO could not write the model ({error}; {free:.0f} MB are free on its disk): "
            "free some space, or choose another --out"
        ) from error


def _write_config(
    folder: Path, config: BertConfig, head: str | None, task: TaskConfig | None
) -> None:
    """`config.json` of the model with this head alone, and `task.json`."""
    objectives = frozenset({head} if head is not None and task is None else ())
    known = task is not None and architecture(task) is not None
    more = BERT.task_keys(task) if known and task is not None else None
    checkpoint.write_config(folder, config, objectives, more)
    if task is not None and head is not None:
        task_heads.write_tasks(folder, {head: task})


def _crf(head: Any) -> dict[str, Any] | None:
    """The numbers of a CRF, which decodes tags after the graph has scored them."""
    crf = getattr(head, "crf", None)
    if crf is None:
        return None
    return {name: value.tolist() for name, value in crf.state_dict().items()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
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
