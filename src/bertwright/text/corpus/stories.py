"""The files of the bAbI tasks (Weston et al. 2015, *Towards AI-Complete Question Answering*).

Every line has a number, and one that falls back to 1 begins a story:

    1 Mary moved to the bathroom.
    2 Where is Mary?<tab>bathroom<tab>1
    3 John went to the hallway.
    4 Where is John?<tab>hallway<tab>3

A question asks about the sentences before it in its story, not about other questions. So each
question becomes a document of its own: those sentences, the question, the answer. The numbers of
the supporting facts are dropped, as Sukhbaatar et al. 2015 train without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bertwright.errors import DataError
from bertwright.text.corpus.report import CorpusReport

_LINE = re.compile(r"(\d+) +(\S[^\t]*)(?:\t([^\t]+)(?:\t[\d ,]*)?)?")
"""Number, sentence or question, answer, supporting facts."""
_BEGIN = re.compile(r"(?:\ufeff)?1 +\S")
_SEPARATORS = re.compile(r"[\s,]+")


class Question(NamedTuple):
    """A question of a story."""

    sentences: list[str]
    """What comes before it in the story, other questions left out."""
    question: str
    answer: str
    """As it is in the file; empty where it has none."""
    line: int
    """Where the question is in the file, from 1."""


def is_babi(head: str, *, answered: bool = True) -> bool:
    """Return whether a file that begins with `head` is one of bAbI's.

    Its lines are numbered from 1, each number being the one before plus 1, or 1 again; and one of
    them is a question, which if `answered` has a tab and its answer behind it.
    """
    if not _BEGIN.match(head):
        return False
    lines = [line for line in head.removeprefix("\ufeff").split("\n") if line.strip()]
    asked, number = False, 0
    for at, line in enumerate(lines):
        found = _LINE.fullmatch(line.rstrip(" \r"))
        if found is None or int(found[1]) not in (1, number + 1):
            # the last line may be a part of one
            return asked and at == len(lines) - 1
        number = int(found[1])
        asked = asked or (_is_question(found) and (found[3] is not None or not answered))
    return asked


def _is_question(found: re.Match[str]) -> bool:
    return found[2].rstrip().endswith("?")


def babi_questions(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Yield the questions of a file, each with the sentences before it.

    Raises:
        DataError: a line without a number, or with more than an answer and facts behind its tabs; a
            question with nothing before it.
    """
    sentences: list[str] = []
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip(" \r"))
        if found is None:
            raise DataError(
                f"{name}, line {at:,} is {line[:80]!r}; expected a line of a bAbI task, as the "
                "lines before: a number and a sentence, or a number and a question, with a tab "
                "before its answer and one before the numbers of its supporting facts"
            )
        number, text, answer = int(found[1]), found[2].strip(), found[3]
        if number == 1:
            sentences = []
        if answer is None and not _is_question(found):
            sentences.append(text)
            continue
        if not sentences:
            raise DataError(
                f"{name}, line {at:,} is the question {text!r} with no sentence of its story "
                "before it; expected a number that falls back to 1 to begin a story, which has "
                "a sentence first"
            )
        yield Question(list(sentences), text, (answer or "").strip(), at)


def babi_documents(lines: Iterable[str], name: str, report: CorpusReport) -> Iterator[list[str]]:
    """Yield each question of a file as a document: its sentences, the question, the answer.

    An answer of several words (`apple,football`) is made one (`applefootball`), which is one class
    of an answer as any other. `report.story_questions` counts the questions.

    Raises:
        DataError: as `babi_questions`; a question without an answer.
    """
    for found in babi_questions(lines, name):
        answer = _SEPARATORS.sub("", found.answer)
        if not answer:
            raise DataError(
                f"{name}, line {found.line:,} is the question {found.question!r} without an "
                "answer; expected a tab and the answer behind it, as in the lines before"
            )
        report.story_questions += 1
        yield ["\n".join([*found.sentences, found.question, answer])]
