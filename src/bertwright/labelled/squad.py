"""Questions to passages: SQuAD 1.1 and 2.0 (CMRC 2018 is the same shape), and flat rows as
`datasets` writes them. `answer_start` counts characters of the passage from 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, Groups
from bertwright.labelled.examples import SpanExample
from bertwright.labelled.file import File, Stream
from bertwright.labelled.source import BadRowLog, BadValue, WrongAnswers, shorten
from bertwright.labelled.table import Row, Table, json_value, read_text

QUESTIONS: Groups = (("question",), ("query", "text"))
CONTEXTS: Groups = (("context",), ("passage", "paragraph", "text2", "document"))
ANSWERS: Groups = (("answers",), ("answer", "answer_text", "label"))


def read_span(file: File) -> Stream:
    """The questions of SQuAD JSON or of a table."""
    value: Any = json_value(file.source, file.log) if file.form == "json" else None
    data = value.get("data") if isinstance(value, dict) else None
    is_squad = isinstance(data, list) and any(
        isinstance(article, dict) and "paragraphs" in article for article in data
    )
    if is_squad:
        file.refuse_unused((), "as SQuAD JSON")
        table, chosen = _squad(value, file.log), file.chosen
    else:
        table, chosen = file.table()
    question = table.find(chosen.text, QUESTIONS, "questions", "--text")
    context = table.find(chosen.text2, CONTEXTS, "passages (context)", "--text2")
    answers = None
    if file.options.require_labels:
        answers = table.find(chosen.label, ANSWERS, "answers", "--label")
    columns = Columns(question, context, answers)
    examples = _examples(table, columns, file.options.wrong_answers)
    found = file.found(examples, columns, table.format if is_squad else table)
    if is_squad:
        found.unanswerable = any(row.get("is_impossible") is True for row in _questions(value))
    return found


def _squad(value: Row, log: BadRowLog) -> Table:
    """The questions of SQuAD's tree of articles, paragraphs and questions, numbered from 1."""
    log.unit = "question"
    version = f", version {value['version']}" if value.get("version") else ""

    def rows(names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        for number, row in enumerate(_questions(value), 1):
            yield number, [row.get(name) for name in names]

    columns = ["question", "context", "answers", "id", "title"]
    return Table(log.name, columns, f"SQuAD JSON{version}", rows, log)


def _questions(value: Row) -> Iterator[Row]:
    """Each entry of `qas`, with the title and the passage it is of."""

    def entries(value: Row, key: str) -> list[Row]:
        found = value.get(key)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise DataError(f"no list {key!r} of objects; expected SQuAD's data, paragraphs, qas")
        return found

    for article in entries(value, "data"):
        for paragraph in entries(article, "paragraphs"):
            for row in entries(paragraph, "qas"):
                above = {"title": article.get("title"), "context": paragraph.get("context")}
                row = row | above
                yield row | {"answers": []} if row.get("is_impossible") is True else row


def _examples(table: Table, columns: Columns, policy: WrongAnswers) -> Iterator[SpanExample]:
    title = table.known((("title",),), "--label")
    log, wrong = table.log, list[int]()

    def make(row: Row, id_: str, line: int) -> SpanExample | None:
        question = read_text(row, columns.text)
        context = read_text(row, columns.text2)
        name = "" if title is None or row[title] is None else str(row[title])
        if columns.label is None:
            return SpanExample(question, context, None, id_, name, line)
        answers = _answers(row[columns.label])
        right = tuple(each for each in answers if each[1] >= 0 and context.startswith(*each))
        if len(right) < len(answers):
            wrong.append(line)
            if policy == "refuse":
                text, at = next(each for each in answers if each not in right)
                raise DataError(
                    f"{log.at(line)}: the answer {shorten(text)} is not at character {at:,} of its "
                    "passage. To leave such questions out: --wrong-answers skip"
                )
            if policy == "skip" and not right:
                log.leave_out(line, "no answer is at its answer_start")
                return None
        answers = answers if policy == "keep" else right
        return SpanExample(question, context, answers, id_, name, line)

    yield from table.examples([*columns.names(), *([] if title is None else [title])], make)
    if wrong:
        log.warn(
            f"{len(wrong):,} questions have an answer that is not at its answer_start (first at "
            f"{log.unit} {wrong[0]:,})"
        )


def _answers(value: Any) -> tuple[tuple[str, int], ...]:
    """Texts with their starts; an empty text is no answer."""
    found = value
    try:
        if isinstance(value, dict):
            pairs = zip(value["text"], value["answer_start"], strict=True)
            found = [{"text": text, "answer_start": start} for text, start in pairs]
        answers = [
            (each["text"], int(each["answer_start"])) for each in found if each["text"] != ""
        ]
        if not all(isinstance(text, str) for text, _ in answers):
            raise TypeError("the text of an answer")
    except (TypeError, ValueError, KeyError, OverflowError):
        expected = 'a list of {"text": "...", "answer_start": 0}'
        raise BadValue("answers of a wrong form", shorten(value), expected) from None
    return tuple(answers)
