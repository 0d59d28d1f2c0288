"""Look for labelled files and their columns before torch is imported, which takes seconds.

What is found here is found again when the file is read; this only makes the error come at once.
"""

from __future__ import annotations

from pathlib import Path

from bertwright.config.finetune import TaskFilesConfig, label_map
from bertwright.config.task import Form, TaskOptions
from bertwright.labelled.choices import CHOICES
from bertwright.labelled.columns import Columns, make_columns
from bertwright.labelled.file import Reader, ReadOptions
from bertwright.labelled.folders import refuse_missing
from bertwright.labelled.read import stream_examples
from bertwright.labelled.similarities import PAIRS
from bertwright.labelled.squad import ANSWERS
from bertwright.labelled.tagged.sentences import TAGS
from bertwright.labelled.texts import CLASSES, NUMBERS, TARGETS
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.read import open_rows, read_table

READERS: dict[str, Reader] = {
    "classification": CLASSES,
    "regression": NUMBERS,
    "tagging": TAGS,
    "span": ANSWERS,
    "multiple-choice": CHOICES,
    "generation": TARGETS,
    "similarity": PAIRS,
}
"""The readers of the kinds of tasks, whose own records import torch."""
_MOST_BYTES = 1 << 24  # larger files, some of which are read whole, are only looked for


def options_of(files: TaskFilesConfig, options: TaskOptions) -> ReadOptions:
    """Return how the training file of a task is read, with the options of its kind."""
    files.check_with(options)
    return ReadOptions(
        format=files.format,
        label_map=label_map(files.label_map),
        iob1_as_iob2=True,
        bad_rows=files.bad_rows,
        **options.reading(),
    )


def look_at(kind: str, files: TaskFilesConfig, options: TaskOptions) -> None:
    """Raise DataError if a file of a task is missing, or its training file lacks a column."""
    for path in (files.train, files.dev or ""):
        if path:
            refuse_missing(path)
    if kind in READERS and _is_small(files.train):
        columns = make_columns(files.text, files.text2, files.label, options.more_columns)
        stream_examples(files.train, READERS[kind], columns, options_of(files, options))


def look_for_columns(path: str, columns: Columns, form: Form | None) -> None:
    """Raise DataError if a table lacks a column that an option names."""
    options = {"--text": columns.text, "--text2": columns.text2, "--label": columns.label}
    named = {option: name for option, name in options.items() if name is not None}
    if named and _is_small(path):
        file = open_rows(Path(path), [*named.values()], form)
        if file.form in ("csv", "jsonl"):
            table = read_table(file, [*named.values()], BadRowLog(file.name))
            for option, name in named.items():
                table.named(name, option)


def _is_small(path: str) -> bool:
    return Path(path).is_file() and Path(path).stat().st_size <= _MOST_BYTES
