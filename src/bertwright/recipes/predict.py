"""Predictions for a file of any size: what `bertwright predict` writes, a JSON line an input.

A line has `line` (where the input stands in its file, from 1), `id` if it has one, and what
`tasks/predictions.py` says of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.config.values import plain
from bertwright.errors import DataError
from bertwright.inference.model import Model
from bertwright.labelled.bad_rows import BadRows, Skipped
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import Example
from bertwright.labelled.read import ReadOptions, Stream, stream_examples
from bertwright.progress import OnProgress, silent
from bertwright.recipes.evaluate import is_pair
from bertwright.tasks.instances import Lengths
from bertwright.tasks.predict import predict_stream
from bertwright.tasks.predictions import Prediction
from bertwright.train.machine import choose_precision

AT_ONCE = 1024
"""Examples in memory at once: enough of equal lengths for good batches."""


@dataclass
class Predicted:
    """What was met on the way."""

    task: str
    format: str
    """Of the input, in words."""
    examples: int = 0
    in_windows: int = 0
    """Inputs that were longer than a window, and read in several."""
    cut: int = 0
    """Inputs of which something could not be read even so."""
    tokens_cut: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, lengths: Lengths) -> None:
        """Count the long texts of a part."""
        self.in_windows += lengths.in_windows
        self.cut += lengths.cut
        self.tokens_cut += lengths.tokens_cut


def predict_file(
    model: Model,
    path: str,
    write: Callable[[str], object],
    task_name: str | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    bad_rows: BadRows = "refuse",
    precision: str = "auto",
    on_progress: OnProgress = silent,
) -> Predicted:
    """Write a line for every input of a file, in order; no more than a part is in memory.

    A file is gone through once before the first prediction, so that a bad row at its end is told
    at the start, and the time left is known. Standard input is not.

    Args:
        model: a loaded one, with a task head.
        path: the file, or `-`.
        write: takes each line with its end.
        task_name: which of its tasks; it may be left out where there is one.
        columns: those asked for; what is left out is found by the names of the training file.
        bad_rows: whether rows that cannot be read stop the reading or are counted.
        precision: `auto`, `fp32` or `bf16`, of the matrix products.
        on_progress: called with the inputs done.

    Raises:
        DataError: no task head, a bad row, or no input.
        ConfigError: no such task.
    """
    name = model.task_name(task_name)
    task = model.tasks[name]
    total = None
    if path != "-":
        total = sum(1 for _ in _stream(path, task, columns, bad_rows).examples)
    stream = _stream(path, task, columns, bad_rows)
    runner = model.runner
    precision, _ = choose_precision(runner.device, precision)
    report = Predicted(name, stream.format)
    pairs = predict_stream(
        runner.learner,
        name,
        task,
        runner.tokenizer,
        stream.examples,
        runner.device,
        precision,
        runner.batch_tokens,
        AT_ONCE,
        report.add,
        lambda done, _: on_progress(done, total),
    )
    for example, prediction in pairs:
        write(json.dumps(as_line(example, prediction), ensure_ascii=False, allow_nan=False) + "\n")
        report.examples += 1
    if not report.examples:
        told = " ".join(stream.log.summary())
        raise DataError(f"{stream.log.name} has no input to predict. {told}".strip())
    report.warnings = stream.warnings()
    report.skipped = stream.log.skipped
    return report


def as_line(example: Example, prediction: Prediction) -> dict[str, Any]:
    """What is said of one input, for JSON."""
    line: dict[str, Any] = {"line": example.line}
    if example.id:
        line["id"] = example.id
    found: dict[str, Any] = plain(line | prediction.as_dict())
    return found


def _stream(path: str, task: TaskConfig, columns: Columns, bad_rows: BadRows) -> Stream:
    options = ReadOptions(
        labels=task.labels or None,
        pair=is_pair(task),
        hint=Columns(task.text_column, task.text2_column),
        bad_rows=bad_rows,
    )
    return stream_examples(path, task.kind, columns, options)
