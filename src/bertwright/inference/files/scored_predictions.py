"""Evaluate predictions in a file, which may come from another program, on a labelled file.

The file is read in these formats: SQuAD's answers by id, CoNLL columns with the predicted tag last,
a table with a column of predictions (GLUE's TSV, CSV, JSON lines), and the output of `bertwright
predict`.

A file for conlleval holds gold and predicted tags: `--data F --label 2 --predictions F`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertwright.config.task import BleuTokenize
from bertwright.errors import DataError, shorten
from bertwright.inference.files.predictions import evaluated, with_bleu_tokenizer
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import labels_of
from bertwright.labelled.file import Read, ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.read import open_rows, read_table
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.tasks.kind import Kind, check_count
from bertwright.tasks.predictions import Prediction, TextPrediction


def evaluate_predictions(
    predictions: str,
    data: str,
    kind: str,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    *,
    main: str | None = None,
    intervals: bool = True,
    bleu_tokenize: BleuTokenize | None = None,
) -> dict[str, Any]:
    """Evaluate a file of predictions on a labelled file.

    Predictions are matched with examples row by row, and answers by the ids of their questions.

    Raises:
        DataError: a file cannot be read, or the predictions are not for the rows of the labelled
            file.
        ConfigError: there is no such metric.
    """
    record = kind_of(kind)
    read = read_examples(data, record.reader, columns, options)
    parsed: Sequence[Prediction] | None = record.read_predictions(predictions, read)
    if parsed is None:
        parsed = _rows(predictions, record, read)
    names = {name for each in parsed if isinstance(each, TextPrediction) for name in each.scores}
    names.update(labels_of(read.examples))
    labels = tuple(sorted(names)) if record.task_class.needs_labels else ()
    task = record.make_task(KINDS[kind].options(), read, read.examples, labels=labels)
    task = record.evaluated(with_bleu_tokenizer(task, bleu_tokenize), read.examples)
    figures = evaluated(task, read, data, parsed, intervals=intervals, main=main)
    return {**figures, "model": Path(predictions).name, "task": kind, "calibration": None}


def _rows(path: str, kind: Kind[Any, Any, Any, Any], read: Read) -> list[Prediction]:
    """Read predictions from a column of a table, a row for each example."""
    log = BadRowLog(path)
    table = read_table(open_rows(Path(path)), (), log)
    column = table.find(None, "predictions", "")
    names = [column, table.id([column]) or column]
    rows = [
        (line, str(row[1]) if names[1] != column else "", row[0]) for line, row in table.rows(names)
    ]
    check_count(path, len(rows), read.examples)
    predictions: list[Prediction] = []
    for (line, id_, value), example in zip(rows, read.examples, strict=True):
        if id_ and example.id not in ("", id_):
            raise DataError(
                f"{log.at(line)}: the prediction is of {shorten(id_)}, the example there is "
                f"{shorten(example.id)}; expected them in one order"
            )
        predictions.append(kind.parse_prediction(value, example, log.at(line)))
    return predictions
