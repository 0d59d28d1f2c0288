"""Exported folders, opened and run: ONNX Runtime or OpenVINO over rectangles of ids.

`checkpoint/export/write.py` writes the folder; `export.json` says what is in it. Sequences go in
without padding and come out without it: they are sorted by length, put into rectangles of about so
many positions, and each gets its own rows back.

Letters: T a sequence's length, H hidden, C scores.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float32s, Int64s
from bertwright.errors import MissingExtra

ONNX = "model.onnx"
OPENVINO = "openvino_model.xml"
FORMAT = 1

Runtime = Literal["onnx", "openvino"]
Arrays = list[Float32s]
Feed = Mapping[str, npt.NDArray[Any]]
Session = Callable[[Feed], list[npt.NDArray[Any]]]
"""Inputs by name -> one array an output, in the order of `Exported.outputs`."""

_FILES: dict[Runtime, str] = {"onnx": ONNX, "openvino": OPENVINO}
PACKAGES: dict[Runtime, str] = {"onnx": "onnxruntime", "openvino": "openvino"}


@dataclass(frozen=True)
class Exported:
    """An exported model, ready to run."""

    head: str | None
    """`masked_lm`, `next_sentence` or a task's name; None: vectors."""
    kind: str | None
    """The kind of the task, if the head is a task's."""
    outputs: dict[str, bool]
    """Name -> whether it has a row for each token."""
    longest: int
    """Tokens of a sequence, at most."""
    session: Session

    def run_all(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        batch_tokens: int = 4096,
    ) -> dict[str, Arrays]:
        """Run sequences of ids, each with its [CLS] and [SEP].

        Args:
            ids: n sequences. With a multiple-choice head each is one choice.
            types: their segments; unset: all 0.
            batch_tokens: positions of a rectangle, about; at least one sequence goes.

        Returns:
            Each output by name: n arrays in the order of `ids`, `[T, H]` or `[T, C]` where it has a
            row for each token (`[T]` for start and end), else `[H]`, `[C]` or `[]`.
        """
        found: dict[str, list[Any]] = {name: [None] * len(ids) for name in self.outputs}
        for rows in _rectangles([len(sequence) for sequence in ids], batch_tokens):
            feed = pad([ids[r] for r in rows], None if types is None else [types[r] for r in rows])
            if self.kind == "multiple-choice":
                feed = {name: array[:, None] for name, array in feed.items()}
            arrays = self.session(feed)
            for (name, of_tokens), array in zip(self.outputs.items(), arrays, strict=True):
                if self.kind == "multiple-choice":
                    array = array[:, 0]
                for index, row in enumerate(rows):
                    own = array[index, : len(ids[row])] if of_tokens else array[index]
                    found[name][row] = np.array(own, dtype=np.float32)
        return found


def open_exported(folder: Path, facts: Mapping[str, Any], threads: int | None = None) -> Exported:
    """Open a folder whose `export.json` says, or is to say, `facts`, by so many threads."""
    outputs = {name: value == "token" for name, value in facts["outputs"].items()}
    path = folder / _FILES[facts["runtime"]]
    session = start(facts["runtime"], path, list(outputs), threads)
    return Exported(facts["head"], facts["kind"], outputs, facts["longest"], session)


def require(runtime: Runtime, *more: str) -> None:
    """Raise MissingExtra unless a runtime, and `more` packages before it, are installed."""
    for package in (*more, PACKAGES[runtime]):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("export", package, f"an exported model of {runtime}")


def pad(
    ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
) -> dict[str, Int64s]:
    """`input_ids`, `attention_mask` and `token_type_ids`, `[B, T]` each, zeros behind the text."""
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
    """Rows of each rectangle, the longest sequences first."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        count = max(1, batch_tokens // lengths[order[start]])
        yield order[start : start + count]
        start += count


def start(runtime: Runtime, path: Path, outputs: list[str], threads: int | None = None) -> Session:
    """Open a graph of a runtime; `outputs` in the order in which it is to give them."""
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

    # On a processor with bf16 OpenVINO computes in it by default.
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads is not None:
        settings["INFERENCE_NUM_THREADS"] = threads
    model = openvino.Core().compile_model(str(path), "CPU", settings)

    def run(feed: Feed) -> list[npt.NDArray[Any]]:
        found = model(dict(feed))
        return [found[name] for name in outputs]

    return run
