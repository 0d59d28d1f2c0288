"""A fine-tuned model judged on a labelled file: what `bertwright evaluate` prints.

The model brings its labels, windows, null threshold and the names of its columns; the file brings
the answers.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.inference.model import Model
from bertwright.labelled.bad_rows import BadRows
from bertwright.labelled.columns import Columns
from bertwright.labelled.read import Read, ReadOptions, read_examples
from bertwright.labelled.tagging_rows import BadTags
from bertwright.progress import OnProgress, silent
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.predict import predict
from bertwright.tasks.task_data import TaskData
from bertwright.train.machine import choose_precision


def evaluate_file(
    model: Model,
    path: str,
    task_name: str | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    *,
    main: str | None = None,
    bad_rows: BadRows = "refuse",
    bad_tags: BadTags = "mend",
    intervals: bool = True,
    precision: str = "auto",
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Judge a model on a labelled file.

    Args:
        model: a loaded one, with a task head.
        path: the file, or `-`.
        task_name: which of its tasks; it may be left out where there is one.
        columns: those asked for; what is left out is found by the names of the training file.
        main: the metric to put first; unset: the usual one of the kind.
        bad_rows: whether rows that cannot be read stop the reading or are counted.
        bad_tags: whether tags that break their scheme are mended and counted, or stop the reading.
        intervals: whether to bootstrap 95 % intervals.
        precision: `auto`, `fp32` or `bf16`, of the matrix products.
        on_progress: called with the tokens done.

    Returns:
        `Evaluation.as_dict()` with `task` (its name), `kind`, `model`, `data` and `lengths`.

    Raises:
        DataError: no task head; a bad row; a label unseen in training; names file and line.
        ConfigError: no such task, or no such metric.
    """
    name = model.task_name(task_name)
    task = model.tasks[name]
    read = read_labelled(path, task, columns, bad_rows, bad_tags)
    runner = model.runner
    precision, _ = choose_precision(runner.device, precision)
    data = TaskData(name, task, runner.tokenizer, read.examples)
    predictions = predict(
        runner.learner, data, runner.device, precision, runner.batch_tokens, on_progress
    )
    found = evaluate(task, read.examples, predictions, intervals=intervals, main=main).as_dict()
    warnings = [*read.warnings, *found.pop("warnings")]
    if data.lengths.cut:
        warnings.append(
            f"{data.lengths.tokens_cut} tokens of {data.lengths.cut} examples fit no window of "
            f"{task.max_length} tokens and were not read"
        )
    facts = {"file": Path(path).name, "examples": len(read.examples), "format": read.format}
    skipped = {reason: asdict(each) for reason, each in read.skipped.items()}
    return {
        "model": runner.name,
        "task": name,
        "kind": task.kind,
        "data": facts | {"skipped": skipped},
        **found,
        "lengths": data.lengths.as_dict(),
        "warnings": warnings,
    }


def read_labelled(
    path: str, task: TaskConfig, columns: Columns, bad_rows: BadRows, bad_tags: BadTags = "mend"
) -> Read:
    """Read a file with answers, for a task that is known.

    Raises:
        DataError: a bad row, a label that the task does not have, or tags that break their scheme
            where they are refused.
    """
    tagging = task.kind == "tagging"
    options = ReadOptions(
        labels=task.labels or None,
        multi_label=task.multi_label,
        pair=is_pair(task),
        hint=Columns(task.text_column, task.text2_column, task.label_column),
        tag_column=columns.label if tagging else None,
        as_scheme=task.scheme if tagging else None,
        bad_tags=bad_tags,
        bad_rows=bad_rows,
        wrong_answers="keep",
    )
    asked = Columns(columns.text, columns.text2, None if tagging else columns.label)
    return read_examples(path, task.kind, asked, options)


def is_pair(task: TaskConfig) -> bool | None:
    """Whether a text comes with a second; None where the model does not know."""
    if task.kind not in ("classification", "regression") or task.text_column is None:
        return None
    return task.text2_column is not None
