"""Predict with a fine-tuned model for the examples of a file, or evaluate the model on it.

`bertwright evaluate` prints the metrics of the predictions; `bertwright predict` writes the
predictions.

The labels, windows, null threshold and column names are those of the model. For evaluation, the
file must have labels. For prediction, it may have any size: a row is written for each input
(`prediction_rows.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from bertwright.config.generation import GenerationConfig
from bertwright.config.task import BleuTokenize, Form, TaskConfig
from bertwright.errors import ConfigError, DataError, shorten
from bertwright.inference.files.prediction_rows import Rows as PredictionRows
from bertwright.inference.files.prediction_rows import RowWriter, row_of
from bertwright.inference.model import Model
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import Example
from bertwright.labelled.file import Read, ReadOptions
from bertwright.labelled.read import read_examples, stream_examples
from bertwright.progress import OnProgress, silent
from bertwright.rows.bad_rows import BadRows, Skipped
from bertwright.rows.read import MemoryRows
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.generation.options import GenerationTask
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.task_data import TaskData, task_parts
from bertwright.train.hardware import choose_precision


class Comparison(NamedTuple):
    """What the training examples of a model say of an evaluation."""

    baselines: dict[str, dict[str, float]]
    """The metrics of simple models on the evaluated examples, by the names of the models."""
    in_train: int | None
    """The number of evaluated examples that the model was trained on; None: it is not known."""
    warnings: list[str]


Compare = Callable[[str, TaskConfig, list[Example]], Comparison]
"""(name of the task, task, evaluated examples) -> the comparison."""

AT_ONCE = 1024
"""The number of examples in memory at once, enough for batches of nearly equal lengths."""


def evaluate_file(
    model: Model,
    path: str | MemoryRows,
    task_name: str | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    form: Form | None = None,
    main: str | None = None,
    label_map: Mapping[str, str] | None = None,
    bad_rows: BadRows = "refuse",
    null_threshold: float | None = None,
    intervals: bool = True,
    precision: str = "auto",
    on_progress: OnProgress = silent,
    generation: GenerationConfig | None = None,
    bleu_tokenize: BleuTokenize | None = None,
    compare: Compare | None = None,
) -> dict[str, Any]:
    """Evaluate a model on a labelled file, on `-` (standard input), or on rows in memory.

    The arguments are those of `bertwright evaluate`, and `compare`, which adds baselines
    (`recipes/finetune/training_file.py`).

    Returns:
        `Evaluation.as_dict()` with `task` (its name), `kind`, `model`, `data` and `lengths`.

    Raises:
        DataError: the model has no task head, or the file has a bad row or a label that was not
            seen in training; the message names the file and line.
        ConfigError: there is no such task or metric.
    """
    name = model.task_name(task_name)
    task = with_bleu_tokenizer(model.tasks[name], bleu_tokenize)
    options = replace(reading(task, bad_rows, form), label_map=label_map or {})
    read = read_examples(path, kind_of(task.kind).reader, columns, options)
    examples = read.of_part("test", "dev")
    read = replace(read, examples=examples)
    task, about_none = with_threshold(task, null_threshold, read.unanswerable)
    task = kind_of(task.kind).evaluated(task, read.examples)
    runner = model.runner
    precision, _ = choose_precision(runner.device, precision)
    data = TaskData(name, task, runner.tokenizer, read.examples)
    predictions = predict(
        runner.learner, data, precision, runner.batch_tokens, on_progress, generation
    )
    evaluation = evaluated(task, read, path, predictions, intervals=intervals, main=main)
    warnings = [*about_none, *evaluation["warnings"], *data.warnings()]
    compared = Comparison({}, None, []) if compare is None else compare(name, task, examples)
    if compared.in_train is not None:
        evaluation["data"]["in_train"] = compared.in_train
    return {
        "model": runner.name,
        "task": name,
        **evaluation,
        "baselines": compared.baselines,
        "lengths": data.lengths.as_dict(),
        "warnings": [*compared.warnings, *warnings],
    }


def with_bleu_tokenizer(task: TaskConfig, wanted: BleuTokenize | None) -> TaskConfig:
    """Return the task with the wanted tokenizer for BLEU; None keeps its own.

    Raises:
        ConfigError: the task does not use BLEU.
    """
    if wanted is None:
        return task
    if not isinstance(task, GenerationTask):
        raise ConfigError(
            f"--bleu-tokenize is for generation; the kind of this task is {task.kind}"
        )
    return replace(task, options=replace(task.options, bleu_tokenize=wanted))


def evaluated(
    task: TaskConfig,
    read: Read,
    path: str | MemoryRows,
    predictions: Sequence[Prediction],
    *,
    intervals: bool,
    main: str | None,
) -> dict[str, Any]:
    """Return the evaluation of predictions for a file, with a description of the file."""
    evaluation = evaluate(
        task, read.examples, predictions, intervals=intervals, main=main
    ).as_dict()
    file = path.name if isinstance(path, MemoryRows) else Path(path).name
    facts = {"file": file, "examples": len(read.examples), "format": read.format}
    skipped = {reason: asdict(each) for reason, each in read.log.skipped.items()}
    warnings = [*read.warnings, *evaluation["warnings"]]
    data = facts | {"skipped": skipped}
    return {"kind": task.kind, "data": data, **evaluation, "lengths": {}, "warnings": warnings}


@dataclass
class Predicted:
    """The counts and warnings of a call of `predict_file`."""

    task: str
    format: str
    """A description of the format of the input."""
    examples: int = 0
    in_windows: int = 0
    """The number of inputs that were longer than a window, and read in several."""
    cut: int = 0
    """The number of inputs that were truncated."""
    tokens_cut: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def rows_of_texts(task: TaskConfig, texts: Sequence[str]) -> MemoryRows:
    """Return texts from the command line as rows that a task reads; their parts are separated by
    tabs.

    Raises:
        DataError: a text does not have the parts that the kind of task needs.
    """
    columns, expected, lists_the_rest = kind_of(task.kind).row(task)
    before = len(columns) - 1
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(texts, 1):
        values: list[Any] = text.split("\t") if len(columns) > 1 else [text]
        if lists_the_rest:
            values = [*values[:before], values[before:]] if len(values) > before + 1 else []
        if len(values) != len(columns):
            raise DataError(
                f"text {number} is {shorten(text)}; expected {expected} with a tab between, as "
                "$'one\\ttwo' in bash"
            )
        rows.append(dict(zip(columns, values, strict=True)))
    return MemoryRows("the command line", rows)


def predict_file(
    model: Model,
    path: str | MemoryRows,
    write: Callable[[str], object],
    task_name: str | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    form: Form | None = None,
    bad_rows: BadRows = "refuse",
    null_threshold: float | None = None,
    precision: str = "auto",
    on_progress: OnProgress = silent,
    generation: GenerationConfig | None = None,
    rows: PredictionRows = "json-lines",
) -> Predicted:
    """Write a row for every input of a file, in order, with only a part of the file in memory.

    A file is read once before the first prediction, so that a bad row at its end is reported at the
    start, and the remaining time is known. Standard input is read only once. `write` receives each
    line with its line end, in the form `rows`; the other arguments are those of `evaluate_file`.

    Raises:
        DataError: the model has no task head, or the file has a bad row, or no input.
        ConfigError: there is no such task.
    """
    name = model.task_name(task_name)
    task = model.tasks[name]
    reader = kind_of(task.kind).reader
    total, options = None, replace(reading(task, bad_rows, form), require_labels=False)
    if path != "-":
        total = sum(1 for _ in stream_examples(path, reader, columns, options).examples)
    stream = stream_examples(path, reader, columns, options)
    task, about_none = with_threshold(task, null_threshold, stream.unanswerable)
    runner = model.runner
    precision, _ = choose_precision(runner.device, precision)
    report, write_row = Predicted(name, stream.format), RowWriter(write, rows)
    for data in task_parts(name, task, runner.tokenizer, stream.examples, AT_ONCE):
        report.in_windows += data.lengths.in_windows
        report.cut += data.lengths.cut
        report.tokens_cut += data.lengths.tokens_cut

        def on_tokens(tokens: int, of: int | None, data: TaskData = data) -> None:
            part = int(len(data.examples) * tokens / (of or 1))
            on_progress(report.examples + part, total)

        predictions = predict(
            runner.learner, data, precision, runner.batch_tokens, on_tokens, generation
        )
        for example, prediction in zip(data.examples, predictions, strict=True):
            write_row(row_of(example, prediction))
        report.examples += len(data.examples)
    if not report.examples:
        summary = " ".join(stream.log.summary())
        raise DataError(f"{stream.log.name} has no input to predict. {summary}".strip())
    report.warnings = [*about_none, *stream.warnings]
    report.skipped = stream.log.skipped
    return report


def with_threshold(
    task: TaskConfig, threshold: float | None, no_answers: bool
) -> tuple[TaskConfig, list[str]]:
    """Return the task with a null threshold, and a warning if the model does not fit the questions.

    A model of transformers does not specify whether it was trained on questions without an answer.
    If the file has such questions (`no_answers`), the model is assumed to have been trained on
    them, and no answer is predicted if its score is the highest.

    Raises:
        ConfigError: the threshold is not a number, or the task is not a span task.
    """
    if threshold is not None:
        if not isinstance(task, SpanTask) or math.isnan(threshold):
            raise ConfigError(
                f"--null-threshold is {threshold:g}, of a {task.kind} task; expected a number, or "
                "inf for always an answer, of a span task"
            )
        return replace(task, unanswerable=threshold < math.inf, null_threshold=threshold), []
    if not isinstance(task, SpanTask) or task.unanswerable or not no_answers:
        return task, []
    if task.unanswerable is None:
        return replace(task, unanswerable=True), [
            "some questions have no answer, and the model does not say by which threshold it "
            "predicts that: --null-threshold 0 is used; to always predict an answer pass inf"
        ]
    return task, [
        "some questions have no answer, which the model was not trained on: it always predicts "
        "one. To let it predict none, pass a threshold, as --null-threshold 0"
    ]


def reading(task: TaskConfig, bad_rows: BadRows, form: Form | None = None) -> ReadOptions:
    """Return the options for reading a file of a task, which are those of its training file."""
    return ReadOptions(
        format=form,
        labels=task.labels or None,
        hint=Columns(task.text_column, task.text2_column, task.label_column),
        bad_rows=bad_rows,
        keep_wrong_answers=True,
        **task.reading(),
    )
