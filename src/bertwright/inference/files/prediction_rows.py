"""Write predictions as rows of a file: JSON lines, or a table with a column for each field.

A row has the `line` of its input, the input's `id` if it has one, the input, and the fields of its
kind in `tasks/predictions.py`. In a table, the scores of labels are a column each (`scores.LABEL`),
and what is neither text nor number (tags, entities, further answers) is JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from bertwright.config.values import plain
from bertwright.errors import ConfigError
from bertwright.labelled.examples import Example
from bertwright.tasks.predictions import Prediction

Rows = Literal["json-lines", "csv", "tsv"]
"""The forms of a file of predictions."""
_INPUTS = ("text", "text2", "question", "context", "choices", "source")
"""The fields of examples that a model reads; the words of a tagging task are in its prediction."""


def form_of(out: str) -> Rows:
    """Return the form of a file by its name: CSV or TSV; otherwise JSON lines.

    Raises:
        ConfigError: the name is that of a compressed or an Excel table, which is not written.
    """
    suffix = Path(out).suffix.lower()
    if suffix in (".xlsx", ".gz", ".parquet"):
        raise ConfigError(
            f"--out is {out}; predictions are written as JSON lines (.jsonl), .csv or .tsv"
        )
    return "csv" if suffix == ".csv" else "tsv" if suffix == ".tsv" else "json-lines"


def row_of(example: Example, prediction: Prediction) -> dict[str, Any]:
    """Return the row of a prediction: its input and what was predicted for it."""
    row: dict[str, Any] = {"line": example.line}
    if example.id:
        row["id"] = example.id
    for name in _INPUTS:
        given = getattr(example, name, None)
        if given not in (None, ""):
            row[name] = given
    found: dict[str, Any] = plain(row | prediction.as_dict())
    return found


class RowWriter:
    """Writes rows as lines of text, with their line ends."""

    def __init__(self, write: Callable[[str], object], form: Rows = "json-lines") -> None:
        """Initialize the writer; `write` is called with each line of the file."""
        self._write, self._form = write, form
        self._columns: list[str] | None = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Write a row; a table begins with the names of its columns, those of its first row."""
        if self._form == "json-lines":
            self._write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            return
        cells = _cells(row)
        if self._columns is None:
            rest = [name for name in cells if name not in ("line", "id")]
            self._columns = ["line", "id", *rest]
            self._write_cells(self._columns)
        self._write_cells([cells.get(name, "") for name in self._columns])

    def _write_cells(self, cells: list[Any]) -> None:
        buffer = io.StringIO()
        separator = "," if self._form == "csv" else "\t"
        csv.writer(buffer, delimiter=separator, lineterminator="\n").writerow(cells)
        self._write(buffer.getvalue())


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row by the names of their columns."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells |= {f"{name}.{key}": each for key, each in value.items()}
        elif isinstance(value, (list, bool)):
            cells[name] = json.dumps(value, ensure_ascii=False)
        else:
            cells[name] = value
    return cells
