"""Read the files of the bAbI tasks (Weston et al. 2015, *Towards AI-Complete Question Answering*).

Every line has a number; the number 1 begins a new story:

    1 Mary moved to the bathroom.
    2 Where is Mary?<tab>bathroom<tab>1
    3 John went to the hallway.
    4 Where is John?<tab>hallway<tab>3

A question is about the sentences before it in its story, not about other questions. So each
question becomes a document of its own: those sentences, the question, the answer. The numbers of
the supporting facts are dropped, because Sukhbaatar et al. 2015 train without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bertwright.errors import DataError
from bertwright.text.corpus.report import CorpusReport

_LINE = re.compile(r"(\d+) +(\S[^\t]*)(?:\t([^\t]+)(?:\t[\d ,]*)?)?")
"""A line: its number, the sentence or question, the answer, the supporting facts."""
_BEGIN = re.compile(r"(?:\ufeff)?1 +\S")
_SEPARATORS = re.compile(r"[\s,]+")


class StoryQuestion(NamedTuple):
    """A question of a story."""

    sentences: list[str]
    """The sentences before it in the story, without other questions."""
    question: str
    answer: str
    """The answer as it is in the file; empty if there is none."""
    line: int
    """The line of the question in the file, from 1."""


def is_babi(head: str, *, answered: bool = True) -> bool:
    """Return whether a file that begins with `head` is one of bAbI's.

    Its lines are numbered from 1 consecutively, starting again at 1 for each story, and at least
    one of them is a question. If `answered`, the question must have a tab and an answer after it.
    """
    if not _BEGIN.match(head):
        return False
    lines = [line for line in head.removeprefix("\ufeff").split("\n") if line.strip()]
    asked, number = False, 0
    for at, line in enumerate(lines):
        match = _LINE.fullmatch(line.rstrip(" \r"))
        if match is None or int(match[1]) not in (1, number + 1):
            # the last line may be incomplete
            return asked and at == len(lines) - 1
        number = int(match[1])
        asked = asked or (_is_question(match) and (match[3] is not None or not answered))
    return asked


def _is_question(match: re.Match[str]) -> bool:
    return match[2].rstrip().endswith("?")


def babi_questions(lines: Iterable[str], name: str) -> Iterator[StoryQuestion]:
    """Yield the questions of a file, each with the sentences before it.

    Raises:
        DataError: a line has no number, or more than an answer and facts after its tabs; or a
            question has no sentence before it.
    """
    sentences: list[str] = []
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip(" \r"))
        if match is None:
            raise DataError(
                f"{name}, line {at:,} is {line[:80]!r}; expected a line of a bAbI task, like the "
                "lines before: a number and a sentence, or a number and a question, with a tab "
                "before its answer and one before the numbers of its supporting facts"
            )
        number, text, answer = int(match[1]), match[2].strip(), match[3]
        if number == 1:
            sentences = []
        if answer is None and not _is_question(match):
            sentences.append(text)
            continue
        if not sentences:
            raise DataError(
                f"{name}, line {at:,} is the question {text!r} with no sentence of its story "
                "before it; expected that each story begins with the number 1 and a sentence"
            )
        yield StoryQuestion(list(sentences), text, (answer or "").strip(), at)


def babi_documents(lines: Iterable[str], name: str, report: CorpusReport) -> Iterator[list[str]]:
    """Yield each question of a file as a document: its sentences, the question, the answer.

    An answer of several words (`apple,football`) is joined to one (`applefootball`), which is one
    class like any other answer. `report.story_questions` counts the questions.

    Raises:
        DataError: as `babi_questions`, or a question has no answer.
    """
    for question in babi_questions(lines, name):
        answer = _SEPARATORS.sub("", question.answer)
        if not answer:
            raise DataError(
                f"{name}, line {question.line:,} is the question {question.question!r} without an "
                "answer; expected a tab and the answer behind it, as in the lines before"
            )
        report.story_questions += 1
        yield ["\n".join([*question.sentences, question.question, answer])]
