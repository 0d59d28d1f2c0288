"""Open and run exported folders, with ONNX Runtime or OpenVINO.

`checkpoint/export/write.py` writes such a folder, and its `export.json` describes it. The caller
passes sequences without padding and gets outputs without padding. In between, the sequences are
sorted by length and padded in batches with a limited number of positions.

Letters: B sequences in a batch, T a sequence's length, H hidden, C scores.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from bertwright.arrays import Float32s, Int64s
from bertwright.atomic import verify_manifest
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.storage.model_folder import EXPORT, read_json
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.kind import ScoreGraph

ONNX = "model.onnx"
OPENVINO = "openvino_model.xml"
FORMAT = 1

Runtime = Literal["onnx", "openvino"]
Arrays = list[Float32s]
Feed = Mapping[str, npt.NDArray[Any]]
Session = Callable[[Feed], list[npt.NDArray[Any]]]
"""Maps the inputs by name to one array per output, in the order of `Exported.outputs`."""

_FILES: dict[Runtime, str] = {"onnx": ONNX, "openvino": OPENVINO}
PACKAGES: dict[Runtime, str] = {"onnx": "onnxruntime", "openvino": "openvino"}


@dataclass(frozen=True)
class Exported:
    """An exported model, ready to run."""

    folder: Path
    """The folder, which has `config.json`, the tokenizer and, with a task head, `task.json`."""
    runtime: Runtime
    int8: bool
    head: str | None
    """`masked_lm`, `next_sentence` or the name of a task; None: the outputs are vectors."""
    kind: str | None
    """The kind of the task, if the head is a task head."""
    outputs: dict[str, bool]
    """The name of each output -> whether it has a row for each token."""
    layers: tuple[int, ...]
    """Without a head, the layers that are returned; 0 is the embeddings."""
    longest: int
    """The maximum number of tokens of a sequence."""
    session: Session

    @cached_property
    def graph(self) -> ScoreGraph | None:
        """How the graph returns the scores of a task head; None without a task head."""
        found: ScoreGraph | None = None if self.kind is None else kind_of(self.kind).graph
        return found

    def run_all(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        batch_tokens: int = 4096,
    ) -> dict[str, Arrays]:
        """Run the model on sequences of ids, including [CLS] and [SEP].

        Args:
            ids: n sequences. With a multiple-choice head, each is one choice.
            types: the segments of each sequence; unset: all 0.
            batch_tokens: the maximum number of positions in a batch. A single sequence may have
                more.

        Returns:
            The outputs by name. Each is a list of n arrays in the order of `ids`: `[T, H]` or
            `[T, C]` if the output has a row for each token (`[T]` for the start and end of spans),
            else `[H]`, `[C]` or `[]`.
        """
        for number, sequence in enumerate(ids):
            if not 0 < len(sequence) <= self.longest:
                raise DataError(
                    f"sequence {number} has {len(sequence)} tokens; this model takes 1 to "
                    f"{self.longest}: truncate it or encode it in windows"
                )
        found: dict[str, list[Any]] = {name: [None] * len(ids) for name in self.outputs}
        for rows in _rectangles([len(sequence) for sequence in ids], batch_tokens):
            feed = pad([ids[r] for r in rows], None if types is None else [types[r] for r in rows])
            of_choices = self.graph is not None and self.graph.choices
            if of_choices:
                feed = {name: array[:, None] for name, array in feed.items()}
            arrays = self.session(feed)
            for (name, of_tokens), array in zip(self.outputs.items(), arrays, strict=True):
                if of_choices:
                    array = array[:, 0]
                for index, row in enumerate(rows):
                    own = array[index, : len(ids[row])] if of_tokens else array[index]
                    found[name][row] = np.array(own, dtype=np.float32)
        return found


def open_exported(folder: str | Path, threads: int | None = None) -> Exported:
    """Open a folder that `bertwright export` wrote.

    Args:
        threads: the number of threads of the runtime; unset: the runtime's default.
    """
    folder = Path(folder)
    if not (folder / EXPORT).is_file():
        raise DataError(
            f"{folder} has no {EXPORT}: it is no exported model; write one with "
            "bertwright export onnx|openvino --model MODEL --task encoder --out DIR"
        )
    verify_manifest(folder)
    return open_as(folder, read_json(folder / EXPORT), threads)


def open_as(folder: Path, facts: Mapping[str, Any], threads: int | None = None) -> Exported:
    """Open an exported folder with the content of `export.json`, which need not be written yet.

    The manifest is not verified. For the arguments and errors, see `open_exported`.
    """
    if (version := facts.get("format")) != FORMAT:
        raise DataError(
            f"{folder / EXPORT} has the format {version!r}; this version reads {FORMAT}"
        )
    if "graphs" in facts:
        raise DataError(
            f"{folder} is a decoder with its cache ({', '.join(facts['graphs'])}), for the runtime "
            "itself: docs/howto/checkpoints.md shows how"
        )
    try:
        runtime: Runtime = facts["runtime"]
        path = folder / _FILES[runtime]
        outputs = {str(name): value == "token" for name, value in facts["outputs"].items()}
        head, kind = facts["head"], facts["kind"]
        layers, longest = tuple(facts["layers"]), int(facts["longest"])
        int8 = bool(facts["int8"])
        bits = facts.get("weight_bits") or 8
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{folder / EXPORT} is damaged ({error!r})") from error
    require(runtime)
    if not path.is_file():
        raise IntegrityError(
            f"{folder} lacks {path.name}, which its {EXPORT} names: export the model again"
        )
    if int8 and runtime == "onnx" and bits > weight_bits():
        raise ConfigError(
            f"{folder} is an int8 export for a processor with VNNI; on this one, without VNNI, its "
            "sums would overflow. Export the model again on this machine"
        )
    session = start(runtime, path, list(outputs), threads)
    return Exported(folder, runtime, int8, head, kind, outputs, layers, longest, session)


def require(runtime: Runtime, *more: str) -> None:
    """Raise MissingExtra unless the package of a runtime and `more` packages are installed."""
    for package in (*more, PACKAGES[runtime]):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("export", package, f"an exported model of {runtime}")


def pad(
    ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
) -> dict[str, Int64s]:
    """Return `input_ids`, `attention_mask` and `token_type_ids`, `[B, T]` each, with zeros after
    each sequence."""
    longest = max(map(len, ids))
    feed = {
        name: np.zeros((len(ids), longest), dtype=np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for row, sequence in enumerate(ids):
        feed["input_ids"][row, : len(sequence)] = sequence
        feed["attention_mask"][row, : len(sequence)] = 1
        if types is not None:
            feed["token_type_ids"][row, : len(sequence)] = types[row]
    return feed


def _rectangles(lengths: list[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of the sequences in each batch, the longest sequences first."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        count = max(1, batch_tokens // lengths[order[start]])
        yield order[start : start + count]
        start += count


def start(runtime: Runtime, path: Path, outputs: list[str], threads: int | None = None) -> Session:
    """Open the graph in a file, and return a function that runs it and returns these outputs in
    order."""
    run = _start_onnx if runtime == "onnx" else _start_openvino
    return run(path, outputs, threads)


def _start_onnx(path: Path, outputs: list[str], threads: int | None) -> Session:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    if threads is not None:
        options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(feed: Feed) -> list[npt.NDArray[Any]]:
        found: list[npt.NDArray[Any]] = session.run(outputs, dict(feed))
        return found

    return run


def _start_openvino(path: Path, outputs: list[str], threads: int | None) -> Session:
    import openvino

    # By default, OpenVINO computes in bfloat16 on a processor that supports it.
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads is not None:
        settings["INFERENCE_NUM_THREADS"] = threads
    model = openvino.Core().compile_model(str(path), "CPU", settings)

    def run(feed: Feed) -> list[npt.NDArray[Any]]:
        found = model(dict(feed))
        return [found[name] for name in outputs]

    return run


def has_vnni() -> bool:
    """Return whether this processor sums products of 8-bit integers in 32 bits (AVX-512 VNNI)."""
    check = getattr(torch.cpu, "_is_avx512_vnni_supported", None) or getattr(
        torch.cpu, "_is_vnni_supported", None
    )
    return bool(check()) if check is not None else False


def weight_bits() -> int:
    """Return the number of bits, 7 or 8, of weights whose products this processor sums without
    saturation."""
    saturates = platform.machine() in ("x86_64", "AMD64") and not (has_vnni() or _has_avx_vnni())
    return 7 if saturates else 8


def _has_avx_vnni() -> bool:
    """Return whether Linux lists AVX-VNNI, the same operation over 256 bits, which torch does not
    report."""
    flags = Path("/proc/cpuinfo")
    return flags.is_file() and "avx_vnni" in flags.read_text("utf-8", "replace").split()
