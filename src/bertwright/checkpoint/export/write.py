"""Export a checkpoint as ONNX or OpenVINO (`bertwright export`), and compare the export with the
original model before the folder appears.

```
DIR/  model.onnx, or openvino_model.xml and .bin     inputs and outputs: see padded.py
      encoder_model.onnx, decoder_model.onnx          of a translation model: see decoders.py
      config.json  tokenizer files  task.json (with a task head)
      modules.json and its parts      of a folder of sentence-transformers: pooling, dense layers
      export.json     the graph, the versions that wrote it, its difference from the original
      MANIFEST.json   size and SHA-256 of every file
```

`graph_files.py` writes the graphs and converts them to int8.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bertwright.atomic import atomic_folder, refuse_folder, refuse_source, write_manifest
from bertwright.checkpoint import checkpoint, task_heads
from bertwright.checkpoint.export.check import SENTENCES, check_random, check_text
from bertwright.checkpoint.export.check_decoder import check_decoder
from bertwright.checkpoint.export.decoders import graphs_of
from bertwright.checkpoint.export.exported import (
    FORMAT,
    Runtime,
    open_as,
    require,
    start,
    weight_bits,
)
from bertwright.checkpoint.export.graph_files import (
    EXPORTERS,
    OPSET,
    finish_model,
    quiet,
    remove_onnx,
    runtime_file,
    versions,
    write_onnx,
)
from bertwright.checkpoint.export.padded import Graph, PaddedEncoder
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.models.load import system_of_config
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder
from bertwright.storage.model_folder import EXPORT
from bertwright.tasks.catalogue import kind_of
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

ENCODER = "encoder"
"""The value of `head` that exports the encoder's vectors, whatever heads the model has."""


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
    """Export a checkpoint to the format of another runtime.

    Args:
        source: a checkpoint, a run or a Hugging Face folder.
        runtime: the runtime whose format is written.
        head: `masked_lm`, `next_sentence`, the name of a task, or `encoder`; unset: the task, if
            there is one, else the encoder's vectors.
        layers: without a head, the layers to return (0 is the embeddings, negative numbers count
            from the top) in place of the last layer and the pooler. Layers above them are left out
            of the graph.
        int8: whether the weights are stored in 8 bits.
        sample: the texts on which an int8 export is evaluated; unset: the 32 sentences `SENTENCES`.
        least: the mean cosine, agreement or correlation on these texts below which an int8 export
            is an error.
        overwrite: whether `out` may be replaced, if Bertwright wrote it.
        on_step: called with a description of each step before it begins.

    Returns:
        The content of `export.json`.
    """
    refuse_folder(out, overwrite)
    loaded = checkpoint.load(source)
    refuse_source(out, loaded.opened.folder)
    system = system_of_config(loaded.config)
    require(runtime, *EXPORTERS)
    learner = loaded.learner.eval().requires_grad_(False)
    tokenizer = loaded.opened.tokenizer
    pooling, texts = None, [*(SENTENCES if sample is None else sample)]
    graphs: list[Graph]
    if system.is_padded:
        padded = _of_encoder(loaded, head, layers)
        task, graphs = padded.task, [padded]
        if int8:
            _check_sample(texts, task)
        if padded.head is None and not layers:
            pooling = loaded.opened.embedding
        facts = _facts_of_encoder(padded, learner)
    else:
        task, graphs = None, graphs_of(learner)
        if head not in (None, "next_token", "translation") or layers or int8:
            raise ConfigError(
                "of a model of this system the decoder with its cache is exported, in float32: "
                "leave out --task, --layers and --int8"
            )
        facts = _facts_of_decoder(graphs, learner, tokenizer, runtime)
    facts = {
        "format": FORMAT,
        "runtime": runtime,
        "int8": int8,
        "weight_bits": weight_bits() if int8 and runtime == "onnx" else None,
        "opset": OPSET,
        **facts,
        "pooling": None if pooling is None else pooling.pooling,
        "longest": learner.encoder.spec.max_length,
        "versions": versions(runtime),
    }
    threads = torch.get_num_threads()
    with atomic_folder(out, overwrite) as folder, quiet():
        on_step("writing the graph")
        paths = [folder / f"{graph.file}.onnx" for graph in graphs]
        for graph, path in zip(graphs, paths, strict=True):
            write_onnx(graph.eval(), path)
            finish_model(path, runtime, False)
        model_folder.copy_tokenizer(loaded.opened.folder, folder, facts["longest"])
        _write_config(folder, loaded.config, facts["head"], task)
        if pooling is not None:
            sentence_transformers.write_defaults(folder, pooling, loaded.config.hidden_size)
        on_step("comparing with ours on random lengths")
        if "graphs" in facts:
            sessions = [
                start(runtime, runtime_file(path, runtime), list(graph.outputs), threads)
                for graph, path in zip(graphs, paths, strict=True)
            ]
            facts["largest_difference"] = check_decoder(learner, graphs, sessions)
            del sessions
        else:
            exported = open_as(folder, facts | {"int8": False}, threads)
            facts["largest_difference"] = check_random(learner, exported)
            del exported
        if int8:
            on_step("to 8 bits, and comparing on text")
            finish_model(paths[0], runtime, True)
            small = open_as(folder, facts, threads)
            facts["int8_on_text"] = {
                "sample": "own" if sample is None else "given",
                "processor": torch.backends.cpu.get_cpu_capability(),
                "machine": platform.machine(),
                **check_text(learner, small, task, tokenizer, texts, least),
            }
        if runtime != "onnx":
            remove_onnx(folder)
        model_folder.write_json(folder / EXPORT, facts)
        write_manifest(folder)
    return facts


def _of_encoder(
    loaded: checkpoint.Loaded, head: str | None, layers: Sequence[int]
) -> PaddedEncoder:
    """Return the graph of an encoder with the requested head, or of the requested layers."""
    head = _head(head, loaded.learner, loaded.tasks, str(loaded.opened.folder))
    if layers and head is not None:
        raise ConfigError(f"layers are vectors; the head {head} has its own: leave one of them out")
    task = loaded.tasks.get(head) if head is not None else None
    kind = None if task is None else kind_of(task.kind)
    if kind is not None and kind.generates:
        raise ConfigError(
            f"an export gives the scores of a text at once, and the head {head} writes a text "
            "token by token: use bertwright predict"
        )
    if kind is not None and kind.graph is None:
        raise ConfigError(f"there is no export of a {kind.name} task: use bertwright predict")
    return PaddedEncoder(
        loaded.learner, head, task, _numbers(layers, loaded.learner.encoder.spec.depth)
    )


def _check_sample(texts: Sequence[str], task: TaskConfig | None) -> None:
    """Raise DataError unless an int8 export can be evaluated on these texts."""
    if not any(text.strip() for text in texts):
        raise DataError("the sample has no text: give a file with a text a line")
    graph = None if task is None else kind_of(task.kind).graph
    if graph is not None and graph.one_number and len(texts) < 2:
        raise DataError("int8 is evaluated by a correlation here: give two texts or more")


def _facts_of_encoder(graph: PaddedEncoder, learner: Learner) -> dict[str, Any]:
    """Return the description of an encoder's graph for `export.json`, with the parameters of a CRF,
    which are needed to decode tags."""
    heads = learner.objectives.items()
    crf = getattr(graph.head, "crf", None)
    return {
        "head": next((name for name, head in heads if head is graph.head), None),
        "kind": graph.kind,
        "inputs": list(graph.inputs),
        "outputs": {n: "token" if each else "sequence" for n, each in graph.outputs.items()},
        "layers": list(graph.layers) if graph.head is None else [],
        "crf": None if crf is None else {n: x.tolist() for n, x in crf.state_dict().items()},
    }


def _facts_of_decoder(
    graphs: Sequence[Graph], learner: Learner, tokenizer: Tokenizer, runtime: Runtime
) -> dict[str, Any]:
    """Return the description of a decoder's graphs for `export.json`: the inputs with their types
    and axes, the outputs, and the ids that begin a text, that end it and that are never
    generated."""
    special = tokenizer.special
    ends = {special[role] for role in ("sep", "eos") if role in special}
    made = {}
    for graph in graphs:
        inputs = {
            name: ["float32" if name in graph.state else "int64", list(axes)]
            for name, axes in graph.inputs.items()
        }
        file = runtime_file(Path(f"{graph.file}.onnx"), runtime).name
        made[file] = {"inputs": inputs, "outputs": list(graph.outputs)}
    return {
        "head": "next_token" if len(graphs) == 1 else "translation",
        "graphs": made,
        "outputs": dict.fromkeys(graphs[-1].outputs, "token"),
        "begin": (ends_of(special) or (None,))[0],
        "ends": sorted(ends),
        "never": sorted({*special.values(), *tokenizer.ids_without_token} - ends),
        "crf": None,
    }


def _head(
    requested: str | None, learner: Learner, tasks: dict[str, TaskConfig], where: str
) -> str | None:
    """Return the name of the head to export; None for the encoder's vectors."""
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


def _numbers(layers: Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the numbers of the layers, counted from 0, the embeddings."""
    if not layers:
        return ()
    numbers = VectorConfig(tuple(layers)).numbers(depth)
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"layers {', '.join(map(str, layers))} name one layer twice")
    return numbers


def _write_config(folder: Path, config: Any, head: str | None, task: TaskConfig | None) -> None:
    """Write `config.json` of the model with this head alone and, for a task head, `task.json`."""
    objectives = frozenset({head} if head is not None and task is None else ())
    system = system_of_config(config)
    names, pooled = system.names, system.spec(config).pooled
    known = task is not None and names.task_architecture(task, pooled) is not None
    more = names.task_keys(task) if known and task is not None else None
    checkpoint.write_config(folder, config, objectives, more)
    if task is not None and head is not None:
        task_heads.write_tasks(folder, {head: task})
