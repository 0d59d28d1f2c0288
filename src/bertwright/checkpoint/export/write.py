"""`bertwright export`: a checkpoint as ONNX or OpenVINO, held against ours before it appears.

```
DIR/  model.onnx, or openvino_model.xml and .bin     inputs and outputs: see padded.py
      config.json  tokenizer files  task.json (with a task head)
      modules.json and its parts      of a folder of sentence-transformers: pooling, dense layers
      export.json     what it is, what it was written with, and how far it is from ours
      MANIFEST.json   size and SHA-256 of every file
```

How a graph becomes a file, and int8: `graph_files.py`. A model that writes token by token has
graphs with a state (`decoders.py`, `write_decoder.py`).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bertwright.atomic import atomic_folder, refuse_folder, refuse_source, write_manifest
from bertwright.checkpoint import checkpoint, model_folder, task_heads
from bertwright.checkpoint.export.check import SAMPLE, check_random, check_text
from bertwright.checkpoint.export.exported import (
    FORMAT,
    ONNX,
    Runtime,
    open_unverified,
    require,
    weight_bits,
)
from bertwright.checkpoint.export.graph_files import (
    EXPORTERS,
    OPSET,
    finish_model,
    quiet,
    remove_onnx,
    versions,
    write_onnx,
)
from bertwright.checkpoint.export.padded import INPUTS, Padded
from bertwright.checkpoint.export.write_decoder import export_decoder
from bertwright.checkpoint.huggingface.bert import BERT, architecture
from bertwright.checkpoint.model_folder import EXPORT
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sources import read_tokenizer
from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.objectives.objective import Learner

ENCODER = "encoder"
"""What `head` is to have vectors, whatever heads there are."""


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
    require(runtime, *EXPORTERS)
    refuse_folder(out, overwrite)
    loaded = checkpoint.load(source)
    refuse_source(out, loaded.folder)
    if type(loaded.config) is not BertConfig:
        if head not in (None, "next_token", "translation") or layers or int8:
            raise ConfigError(
                "of a model that is no BERT the decoder with its cache is exported, in float32: "
                "leave out --task, --layers and --int8"
            )
        return export_decoder(loaded, out, runtime, overwrite, on_step)
    config = loaded.config
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
        "versions": versions(runtime),
    }
    with atomic_folder(out, overwrite) as folder, quiet():
        on_step("writing the graph")
        _write_padded(padded, folder / ONNX, config)
        (folder / EXPORT).write_text(json.dumps(facts))
        model_folder.copy_tokenizer(loaded.folder, folder, config.max_position_embeddings)
        _write_config(folder, config, head, task)
        if pooling is not None:
            sentence_transformers.write_defaults(folder, pooling, config.hidden_size)
        finish_model(folder / ONNX, runtime, False)
        on_step("comparing with ours on random lengths")
        exported = open_unverified(folder, threads=torch.get_num_threads())
        segments = config.type_vocab_size
        size = config.vocab_size
        facts["largest_difference"] = check_random(learner, exported, task, size, segments)
        if int8:
            on_step("to 8 bits, and comparing on text")
            del exported
            finish_model(folder / ONNX, runtime, True)
            small = open_unverified(folder, threads=torch.get_num_threads())
            figures = check_text(learner, small, task, tokenizer, texts, least)
            facts["int8_on_text"] = {
                "sample": "own" if sample is None else "given",
                "processor": torch.backends.cpu.get_cpu_capability(),
                "machine": platform.machine(),
                **figures,
            }
        if runtime != "onnx":
            remove_onnx(folder)
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


def _write_padded(padded: Padded, path: Path, config: BertConfig) -> None:
    """Every size but the widths is open."""
    # Neither 1 nor a size of the model, or the exporter would take a size for fixed.
    shape = (2, 3, 5) if padded.choices else (3, 5)
    length = min(shape[-1], config.max_position_embeddings)
    # Three tensors: of one tensor given twice the exporter makes one input.
    inputs = tuple(torch.full((*shape[:-1], length), n, dtype=torch.int64) for n in (1, 1, 0))
    names = ("batch", "choices", "sequence") if padded.choices else ("batch", "sequence")
    sizes = {axis: torch.export.Dim(name) for axis, name in enumerate(names)}
    write_onnx(padded, path, inputs, (sizes, sizes, sizes), INPUTS, padded.outputs)


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
