"""Predictions in files, evaluated on a labelled file as those of a model are.

The file may come from another program. It is read in these forms: SQuAD's answers by id, CoNLL
columns with the predicted tag last, a table with a column of predictions (GLUE's TSV, CSV, JSON
lines), and what `bertwright predict` writes.

A file of conlleval holds gold and predicted tags: `--data F --label 2 --predictions F`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertwright.config.task import BleuTokenize, Kind, TaskConfig
from bertwright.errors import DataError
from bertwright.inference.predict_file import evaluated, with_bleu_tokenizer
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import Example, TaggingExample, labels_of
from bertwright.labelled.file import Read, ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.labelled.source import BadRowLog, listed, open_source, shorten
from bertwright.labelled.table import open_form, read_table
from bertwright.tasks.predictions import (
    ChoicePrediction,
    GenerationPrediction,
    NumberPrediction,
    Prediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)


def evaluate_predictions(
    predictions: str,
    data: str,
    kind: Kind,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    *,
    main: str | None = None,
    intervals: bool = True,
    bleu_tokenize: BleuTokenize | None = None,
) -> dict[str, Any]:
    """Evaluate a file of predictions on a labelled file, row by row, or answers by their ids.

    Raises:
        DataError: a file that cannot be read; predictions of other rows than the labelled file's.
        ConfigError: no such metric.
    """
    read = read_examples(data, kind, columns, options)
    if kind == "tagging":
        found = _tags(predictions, read)
    elif kind == "span":
        found = _answers(predictions, read)
    else:
        found = _rows(predictions, kind, read)
    held = {name for each in found if isinstance(each, TextPrediction) for name in each.scores}
    held.update(labels_of(read.examples))
    labels = tuple(sorted(held)) if kind in ("classification", "tagging") else ()
    task = TaskConfig(kind, labels, scheme=read.scheme, unanswerable=read.unanswerable)
    task = with_bleu_tokenizer(task, bleu_tokenize)
    figures = evaluated(task, read, data, found, intervals=intervals, main=main)
    return {**figures, "model": Path(predictions).name, "task": kind, "calibration": None}


def _rows(path: str, kind: Kind, read: Read) -> list[Prediction]:
    log = BadRowLog(path)
    source, form = open_form(Path(path), ())
    table = read_table(source, form, (), log)
    column = table.find(None, "predictions", "prediction as")
    names = [column, table.id([column]) or column]
    rows = [
        (line, str(row[1]) if names[1] != column else "", row[0]) for line, row in table.rows(names)
    ]
    _same_number(path, len(rows), read.examples)
    found: list[Prediction] = []
    for (line, id_, value), example in zip(rows, read.examples, strict=True):
        if id_ and not isinstance(example, TaggingExample) and example.id not in ("", id_):
            raise DataError(
                f"{log.at(line)}: the prediction is of {shorten(id_)}, the example there is "
                f"{shorten(example.id)}; expected them in one order"
            )
        found.append(_prediction(kind, value, example, log.at(line)))
    return found


def _prediction(kind: Kind, value: Any, example: Any, where: str) -> Prediction:
    if kind == "classification":
        name = str(value)
        return TextPrediction(name, {name: 1.0})
    if kind == "span":
        return _span("" if value is None else str(value))
    if kind == "generation":
        return GenerationPrediction(str(value))
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if kind == "regression" and math.isfinite(number):
        return NumberPrediction(number)
    if kind == "multiple-choice" and number in range(len(example.choices)):
        scores = [float(n == number) for n in range(len(example.choices))]
        return ChoicePrediction(int(number), tuple(scores))
    expected = "a number" if kind == "regression" else f"0 to {len(example.choices) - 1}"
    raise DataError(f"{where}: the prediction is {shorten(value)}; expected {expected}")


def _tags(path: str, read: Read) -> list[Prediction]:
    found = read_examples(path, "tagging", options=ReadOptions(as_scheme="none")).examples
    _same_number(path, len(found), read.examples)
    predictions: list[Prediction] = []
    for each, example in zip(found, read.examples, strict=True):
        assert isinstance(each, TaggingExample)
        assert isinstance(example, TaggingExample)
        if each.words != example.words:
            raise DataError(
                f"{path}, line {each.line}: the words are {listed(each.words, 5)}, those of the "
                f"labelled file, line {example.line}, {listed(example.words, 5)}; expected the "
                "same sentences"
            )
        tags = each.tags or ()
        predictions.append(TaggingPrediction(each.words, tags, (1.0,) * len(tags), ()))
    return predictions


def _answers(path: str, read: Read) -> list[Prediction]:
    """Answers by the ids of the questions, as SQuAD's script takes them, or a row each."""
    text = "\n".join(line for _, line in open_source(Path(path)).lines())
    try:
        answers = json.loads(text)
    except ValueError:
        return _rows(path, "span", read)
    if not isinstance(answers, dict) or not all(isinstance(v, str) for v in answers.values()):
        return _rows(path, "span", read)
    ids = [getattr(example, "id", "") for example in read.examples]
    if missing := [id_ for id_ in ids if id_ not in answers]:
        what = f"has no answer to {len(missing):,} of {len(ids):,} questions: {listed(missing, 3)}"
        if len(missing) == len(ids):
            raise DataError(
                f'{path} {what}; expected {{"id": "answer", ...}}, "" where there is none'
            )
        read.log.warnings.append(f"{path} {what}; each of them counts as wrong")
    return [_span(answers.get(id_, _NOT_ANSWERED)) for id_ in ids]


_NOT_ANSWERED = "\ufffe"
"""In place of an answer that is missing, as SQuAD's script counts it: no character of a text, so
that it is wrong also where a question has no answer."""


def _span(answer: str) -> SpanPrediction:
    return SpanPrediction(answer, 0, 0, 0.0, 0.0, ())


def _same_number(path: str, count: int, examples: Sequence[Example]) -> None:
    if count != len(examples):
        raise DataError(
            f"{path} has {count:,} predictions for {len(examples):,} examples; expected one each, "
            "in the same order"
        )
