"""Labelled examples as files give them, before any tokenizer saw them; one class a kind of input.
`line` is where one stands in its file, from 1, for messages; 0 where it is of no file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bertwright.text.tokenizer.normalize import is_chinese

Label = str | float | tuple[str, ...]
"""A class, a number (regression), or the classes that hold (multi-label)."""


@dataclass(frozen=True)
class TextExample:
    """A text or a pair (classification, regression)."""

    text: str
    text2: str | None = None
    label: Label | None = None
    id: str = ""
    line: int = 0


@dataclass(frozen=True)
class TaggingExample:
    """A sentence split into words, each with a tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    """Which document the sentence is of: sentences of one document are each other's context."""
    text: str | None = None
    """The text the words are from, where they are from one."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Characters of `text` each word is from."""
    id: str = ""
    line: int = 0

    def read(self, start: int = 0, stop: int | None = None) -> str:
        """Some words as one reads them: as the text has them where it is known, otherwise with
        blanks between, but for Chinese that is given character by character."""
        if self.text is not None and self.offsets is not None:
            own = self.offsets[start:stop]
            return self.text[own[0][0] : own[-1][1]] if own else ""
        characters = all(len(word) == 1 for word in self.words)
        blank = "" if characters and any(map(is_chinese, self.words)) else " "
        return blank.join(self.words[start:stop])


@dataclass(frozen=True)
class SpanExample:
    """A question to a passage; the answer is a slice of the passage."""

    question: str
    context: str
    answers: tuple[tuple[str, int], ...] | None = None
    """Accepted answers, and where each starts; empty: none in the passage; None: not known."""
    id: str = ""
    title: str = ""
    line: int = 0


@dataclass(frozen=True)
class ChoiceExample:
    """A text and several ways to go on (SWAG), or a question and its possible answers."""

    text: str
    choices: tuple[str, ...]
    text2: str = ""
    """What begins every choice (SWAG's `sent2`), or a question about `text`."""
    label: int | None = None
    """Number of the right choice, from 0."""
    id: str = ""
    line: int = 0


@dataclass(frozen=True)
class GenerationExample:
    """A source and what is to be written from it."""

    source: str
    target: str | None = None
    id: str = ""
    line: int = 0


Example = TextExample | TaggingExample | SpanExample | ChoiceExample | GenerationExample


def classes_of(example: Example) -> tuple[str, ...]:
    """The classes or tags of an example; none where they are numbers, or not known."""
    label = getattr(example, "tags" if isinstance(example, TaggingExample) else "label", None)
    if isinstance(label, str):
        return (label,)
    return label if isinstance(label, tuple) else ()


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """The classes or tags of examples: whole numbers by size, others by spelling, O first."""
    names = sorted({name for each in examples for name in classes_of(each)})
    numbers = all(name.removeprefix("-").isdecimal() for name in names)
    return tuple(sorted(names, key=int if numbers else lambda name: name != "O"))


def is_mostly_chinese(texts: Iterable[str]) -> bool:
    """Whether more than half of the letters of all texts are CJK ideographs."""
    chinese = letters = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        if not text.isascii():
            chinese += sum(map(is_chinese, text))
    return chinese > letters / 2
