"""Labelled examples as files hold them, before tokenization; one class for each kind of input.

`line` is the example's place in its file, from 1, for messages; 0 if it is not from a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bertwright.arrays import Float32s
from bertwright.text.tokenizer.normalize import is_chinese

Label = str | float | tuple[str, ...]
"""A class, a number (regression), or the classes that apply (multi-label)."""


@dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts (classification, regression)."""

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
    """The number of the sentence's document. Sentences of the same document are each other's
    context.
    """
    text: str | None = None
    """The text that the words were split from, if there is one."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """The start and end of each word in `text`, in characters."""
    id: str = ""
    line: int = 0

    def read(self, start: int = 0, stop: int | None = None) -> str:
        """Return some of the words as readable text.

        It is a slice of `text` if that is known. Otherwise the words are joined by blanks, or
        without blanks if they are single Chinese characters.
        """
        if self.text is not None and self.offsets is not None:
            selected = self.offsets[start:stop]
            return self.text[selected[0][0] : selected[-1][1]] if selected else ""
        characters = all(len(word) == 1 for word in self.words)
        blank = "" if characters and any(map(is_chinese, self.words)) else " "
        return blank.join(self.words[start:stop])


@dataclass(frozen=True)
class SpanExample:
    """A question about a passage; the answer is a slice of the passage."""

    question: str
    context: str
    answers: tuple[tuple[str, int], ...] | None = None
    """The accepted answers with their start offsets; empty if the passage has no answer; None if
    not known.
    """
    id: str = ""
    title: str = ""
    line: int = 0


@dataclass(frozen=True)
class ChoiceExample:
    """A text and its possible continuations (SWAG), or a question and its possible answers."""

    text: str
    choices: tuple[str, ...]
    text2: str = ""
    """The beginning of every choice (SWAG's `sent2`), or a question about `text`."""
    label: int | None = None
    """The index of the right choice, from 0."""
    id: str = ""
    line: int = 0


@dataclass(frozen=True)
class GenerationExample:
    """A source text and the target text to generate from it."""

    source: str
    target: str | None = None
    id: str = ""
    line: int = 0


@dataclass(frozen=True)
class SimilarityExample:
    """A text and one that belongs to it, or two texts with a number or a label."""

    text: str
    text2: str
    negatives: tuple[str, ...] = ()
    """Texts that do not belong to `text` although they look like it (hard negatives)."""
    label: float | str | None = None
    """How similar the two are, or the class of the pair; 1 for a pair that is known to belong
    together without a column that says so; None if nothing is known.
    """
    is_score: bool = field(default=False, compare=False)
    """Whether the name of the label's column says that the label is a score."""
    document: str = ""
    """The document that both texts are from, if it is known."""
    targets: tuple[Float32s, ...] = field(default=(), compare=False, repr=False)
    """The vectors that a teacher gives the texts, in their order; empty without a teacher."""
    id: str = ""
    line: int = 0


Example = (
    TextExample
    | TaggingExample
    | SpanExample
    | ChoiceExample
    | GenerationExample
    | SimilarityExample
)


def classes_of(example: Example) -> tuple[str, ...]:
    """Return the classes or tags of an example; empty if it has a number or no label."""
    label = getattr(example, "tags" if isinstance(example, TaggingExample) else "label", None)
    if isinstance(label, str):
        return (label,)
    return label if isinstance(label, tuple) else ()


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """Return the sorted classes or tags of all examples: integers by value, others by name, O
    first.
    """
    names = sorted({name for each in examples for name in classes_of(each)})
    numbers = all(name.removeprefix("-").isdecimal() for name in names)
    return tuple(sorted(names, key=int if numbers else lambda name: name != "O"))


def is_mostly_chinese(texts: Iterable[str]) -> bool:
    """Return whether more than half of the letters of all texts are CJK ideographs."""
    chinese = letters = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        if not text.isascii():
            chinese += sum(map(is_chinese, text))
    return chinese > letters / 2
