"""Read questions about passages: SQuAD 1.1 and 2.0, and the flat rows that `datasets` writes.

CMRC 2018 has the form of SQuAD. `answer_start` counts characters of the passage from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bertwright.errors import DataError, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import SpanExample
from bertwright.labelled.file import File, LabelledTable, Reader, Row, Stream, read_text
from bertwright.rows.bad_rows import BadValue
from bertwright.rows.json import objects_table


def read_span(file: File) -> Stream:
    """Read the questions of SQuAD JSON or of a table."""
    table = file.table()
    questions: list[Row] = []
    is_squad = "paragraphs" in table.columns and "question" not in table.columns
    if is_squad:
        file.refuse_unused((), "as SQuAD JSON")
        questions = _questions(table)
        table = replace(file.table_of(objects_table(questions, file.log)), format="SQuAD JSON")
        file.log.unit = "question"
    question = table.find(table.chosen.text, "questions", "--text")
    context = table.find(table.chosen.text2, "passages", "--text2")
    columns = Columns(question, context, table.label("answers"))
    title = table.known("titles", "--label")
    examples = _examples(table, columns, title)
    # what SQuAD's questions have besides is of no use here
    beside = table.columns if is_squad else [title]
    stream = table.stream(examples, columns, beside=beside)
    return replace(stream, unanswerable=any(row.get("is_impossible") is True for row in questions))


def _questions(table: LabelledTable) -> list[Row]:
    """Return a row for each entry of `qas`, with the title and passage it belongs to."""
    try:
        rows = [
            row | {"title": title, "context": paragraph.get("context")}
            for _, (title, paragraphs) in table.rows(["title", "paragraphs"])
            for paragraph in paragraphs
            for row in paragraph["qas"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{table.name} has no questions: {error}; expected SQuAD's keys data, paragraphs, qas"
        ) from error
    return [row | {"answers": []} if row.get("is_impossible") is True else row for row in rows]


def _examples(table: LabelledTable, columns: Columns, title: str | None) -> Iterator[SpanExample]:
    log, keep_wrong = table.log, table.options.keep_wrong_answers

    def make(row: Row, id_: str, line: int) -> SpanExample | None:
        question = read_text(row, columns.text)
        context = read_text(row, columns.text2)
        name = str(row.get(title) or "")
        if columns.label is None:
            return SpanExample(question, context, None, id_, name, line)
        answers = _answers(row[columns.label])
        right = tuple(each for each in answers if each[1] >= 0 and context.startswith(*each))
        if len(right) < len(answers):
            log.mended.add(line, "questions have an answer that is not at its answer_start")
            if not keep_wrong and not right:
                log.skipped.add(line, "no answer is at its answer_start")
                return None
        answers = answers if keep_wrong else right
        return SpanExample(question, context, answers, id_, name, line)

    return table.examples([*columns.names(), title], make)


def _answers(value: Any) -> tuple[tuple[str, int], ...]:
    """Return the texts of the answers with their starts, without empty texts."""
    try:
        if isinstance(value, dict):
            pairs = [*zip(value["text"], value["answer_start"], strict=True)]
        else:
            pairs = [(each["text"], each["answer_start"]) for each in value]
        if not all(isinstance(text, str) for text, _ in pairs):
            raise TypeError("the text of an answer")
        return tuple((text, int(start)) for text, start in pairs if text)
    except (TypeError, ValueError, KeyError, OverflowError):
        expected = 'a list of {"text": "...", "answer_start": 0}'
        raise BadValue("answers of a wrong form", shorten(value), expected) from None


ANSWERS = Reader(read_span)
