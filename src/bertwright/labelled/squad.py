"""Questions to passages: SQuAD 1.1 and 2.0 (CMRC 2018 is the same shape), and flat rows.

Flat rows have `question`, `context` and `answers`, as `datasets` writes SQuAD:
`{"text": [...], "answer_start": [...]}`, or a list of `{"text", "answer_start"}`, or columns
`answer` and `answer_start`. `answer_start` counts characters of the passage from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, Groups, find, find_one
from bertwright.labelled.examples import SpanExample
from bertwright.labelled.source import BadRowLog, BadValue, shorten, without_surrogates
from bertwright.labelled.table import Table
from bertwright.labelled.texts import read_name, read_text

WrongAnswers = Literal["skip", "refuse", "keep"]
QUESTIONS: Groups = (("question",), ("query", "text"))
CONTEXTS: Groups = (("context",), ("passage", "paragraph", "text2", "document"))
ANSWERS: Groups = (("answers",), ("answer", "answer_text", "label"))
STARTS: Groups = (("answer_start",), ("start", "start_position"))
_SHOWN = 5
_NO_ANSWER = "no answer is at its answer_start"


@dataclass
class Answers:
    """Compares the answers of all questions with their passages."""

    policy: WrongAnswers
    log: BadRowLog
    questions: int = 0
    wrong: int = 0
    """Questions with an answer that is not at its `answer_start`."""
    first: list[str] = field(default_factory=list)

    def check(self, example: SpanExample) -> SpanExample | None:
        """The example with the answers that are right, or None where it is left out.

        Raises:
            DataError: an answer is not where it should be, and the policy is `refuse`.
        """
        self.questions += 1
        answers = example.answers or ()
        right = tuple(
            (text, start)
            for text, start in answers
            if start >= 0 and example.context[start : start + len(text)] == text
        )
        if len(right) == len(answers):
            return example
        self.wrong += 1
        text, start = next(each for each in answers if each not in right)
        there = example.context[max(start, 0) : max(start, 0) + len(text)]
        name = f"{self.log.unit} {example.line:,}" + (f" ({example.id})" if example.id else "")
        if len(self.first) < _SHOWN:
            self.first.append(name)
        if self.policy == "refuse":
            raise DataError(
                f"{self.log.name}, {name}: the answer {shorten(text)} is not at character "
                f"{start:,}, where the passage has {shorten(there)}. To leave such questions out: "
                "--wrong-answers skip"
            )
        if self.policy == "keep":
            return example
        if not right:
            self.log.leave_out(example.line, _NO_ANSWER)
            return None
        return SpanExample(
            example.question, example.context, right, example.id, example.title, example.line
        )

    def warn(self) -> None:
        """Warn of how many answers were wrong."""
        if self.wrong:
            what = "kept as they are" if self.policy == "keep" else "such answers are left out"
            more = ", ..." if self.wrong > len(self.first) else ""
            self.log.warn(
                f"{self.wrong:,} of {self.questions:,} questions have an answer "
                f"that is not at its answer_start, {what} ({', '.join(self.first)}{more})"
            )


def is_squad(value: Any) -> bool:
    """Whether it is SQuAD's tree of articles, paragraphs and questions."""
    data = value.get("data") if isinstance(value, dict) else None
    return isinstance(data, list) and any(
        isinstance(article, dict) and "paragraphs" in article for article in data
    )


def has_impossible(value: Any, log: BadRowLog) -> bool:
    """Whether SQuAD JSON has a question without an answer (`is_impossible`, version 2.0)."""
    return any(row.get("is_impossible") is True for _, _, row in _questions(value, log))


def squad_examples(
    value: Any, *, label: bool, checked: Answers, log: BadRowLog
) -> Iterator[SpanExample]:
    """The questions of a SQuAD file, numbered from 1 in `line`.

    Args:
        label: whether every question must have answers.

    Raises:
        DataError: something that must be there is missing.
    """
    for number, (title, context, row) in enumerate(_questions(value, log), 1):
        answers = () if row.get("is_impossible") is True else row.get("answers")
        named = {"question": row.get("question"), "context": context, "title": title}
        named |= {"id": row.get("id"), "answers": answers if label else None}
        yield from _example(named, number, label=label, checked=checked, log=log)


def _questions(value: Any, log: BadRowLog) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Title, passage and question of each entry of `qas`."""
    log.unit = "question"
    number = 0
    for article in value["data"]:
        for paragraph in _list(article, "paragraphs", log, number):
            for row in _list(paragraph, "qas", log, number):
                number += 1
                if not isinstance(row, dict):
                    raise DataError(f"{log.at(number)}: a question is no JSON object")
                yield article.get("title"), paragraph.get("context"), row


def _list(value: Any, key: str, log: BadRowLog, number: int) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise DataError(
            f"{log.name}: after question {number:,} there is no list {key!r}; expected SQuAD's "
            "data, paragraphs, qas"
        )
    return found


def span_columns(table: Table, chosen: Columns, *, label: bool) -> Columns:
    """The columns of question, passage and answers of flat rows.

    Raises:
        DataError: one is missing or ambiguous.
    """
    there, name = table.columns, table.name
    question = find(chosen.text, QUESTIONS, "questions", "--text", there, name)
    context = find(chosen.text2, CONTEXTS, "passages (context)", "--text2", there, name)
    answers = find(chosen.label, ANSWERS, "answers", "--label", there, name) if label else None
    return Columns(question, context, answers)


def span_examples(
    table: Table, columns: Columns, checked: Answers, log: BadRowLog
) -> Iterator[SpanExample]:
    """The questions of flat rows."""
    others = {"start": STARTS, "id": (("id", "qid"),), "title": (("title",),)}
    found = {"question": columns.text, "context": columns.text2, "answers": columns.label}
    for key, groups in others.items():
        found[key] = find_one(groups, table.columns, table.name, "--label")
    keys = [key for key, name in found.items() if name is not None]
    for line, values in table.rows([found[key] or "" for key in keys]):
        row = dict(zip(keys, values, strict=True))
        if isinstance(row.get("answers"), str):
            row["answers"] = [{"text": row["answers"], "answer_start": row.get("start")}]
        label = columns.label is not None
        yield from _example(row, line, label=label, checked=checked, log=log)


def _example(
    row: dict[str, Any], line: int, *, label: bool, checked: Answers, log: BadRowLog
) -> Iterator[SpanExample]:
    try:
        question = read_text(row["question"], "question", log)
        context = read_text(row["context"], "context", log)
        answers = None
        if row.get("answers") is not None:
            answers = tuple(_answers(row["answers"], log))
        elif label:
            raise BadValue("no answers", "there are no answers; expected a list, empty for none")
    except BadValue as error:
        log.bad(line, error.reason, str(error))
        return
    name, title = (read_name(row.get(key)) for key in ("id", "title"))
    example = checked.check(SpanExample(question, context, answers, name, title, line))
    if example is not None:
        yield example


def _answers(value: Any, log: BadRowLog) -> Iterator[tuple[str, int]]:
    """Texts with their starts; an empty text is no answer."""
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list):
            texts, starts = [texts], [starts]
        if len(texts) != len(starts):
            raise BadValue("answers of a wrong form", f"{len(texts)} texts, {len(starts)} starts")
        value = [{"text": a, "answer_start": b} for a, b in zip(texts, starts, strict=True)]
    for each in value if isinstance(value, list | tuple) else [value]:
        text = each.get("text") if isinstance(each, dict) else None
        if text == "":
            continue
        try:
            start = int(float(each["answer_start"]))  # 13.0 in columns with empty cells
        except (TypeError, ValueError, KeyError, OverflowError):
            text = None
        if not isinstance(text, str):
            raise BadValue(
                "answers of a wrong form",
                f'the answer {shorten(each)} is not of the form {{"text": "...", '
                '"answer_start": 0}',
            )
        yield without_surrogates(text, log), start
