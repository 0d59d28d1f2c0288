"""The inputs of `Model.predict`, as examples of the task.

| kind | an input |
|---|---|
| classification, regression | a text, or two texts |
| tagging | a text, or its words |
| span | a question and a passage |
| multiple choice | a text and a list of choices |
| generation | a source |

A mapping of the example's fields (`text`, `text2`, `words`, `question`, `context`, `choices`) is an
input of every kind; `text2` of a multiple choice begins every choice (SWAG's second sentence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    GenerationExample,
    SpanExample,
    TaggingExample,
    TextExample,
)
from bertwright.labelled.tagged_texts import text_example

_EXPECTED = {
    "classification": "a text, or two texts",
    "regression": "a text, or two texts",
    "tagging": "a text, or a list of words",
    "span": "a question and a passage",
    "multiple-choice": "a text and a list of choices",
    "generation": "a source text",
}


def make_examples(task: TaskConfig, inputs: Iterable[Any]) -> list[Example]:
    """One example an input.

    Raises:
        DataError: an input that this kind of task does not take, or an empty text; names its
            number, from 1.
    """
    table = hasattr(inputs, "columns")
    if table or isinstance(inputs, (str, bytes, Mapping)) or not isinstance(inputs, Iterable):
        what = "a table: give one column, or its rows as a list" if table else "put it in a list"
        raise DataError(
            f"predict takes a list of inputs, each {_EXPECTED[task.kind]}; this is one "
            f"{type(inputs).__name__}: {what}"
        )
    examples: list[Example] = []
    for number, given in enumerate(inputs, 1):
        try:
            example = None if isinstance(given, Set) else _MAKERS[task.kind](given)
        except (TypeError, ValueError):
            example = None
        if example is None:
            raise DataError(
                f"input {number} is {_shown(given)}; expected {_EXPECTED[task.kind]}, none of "
                f"them empty, as this model's task is {task.kind}"
            )
        examples.append(example)
    return examples


def _text(given: Any) -> TextExample | None:
    if isinstance(given, str):
        given = given, None
    text, text2 = _fields(given, TextExample, ("text", "text2"))
    fits = _are_texts(text, text if text2 is None else text2)
    return TextExample(text, text2) if fits else None


def _tagging(given: Any) -> TaggingExample | None:
    if isinstance(given, Mapping):
        text, words = _fields(given, TaggingExample, ("text", "words"))
        given = text if words is None else words
    if isinstance(given, str):
        return text_example(given, 0) if _are_texts(given) else None
    words = tuple(given)
    return TaggingExample(words) if words and _are_texts(*words) else None


def _span(given: Any) -> SpanExample | None:
    question, context = _fields(given, SpanExample, ("question", "context"))
    return SpanExample(question, context) if _are_texts(question, context) else None


def _choices(given: Any) -> ChoiceExample | None:
    if not isinstance(given, Mapping):
        text, choices = given
        given = {"text": text, "choices": choices}
    text, choices, text2 = _fields(given, ChoiceExample, ("text", "choices", "text2"))
    if isinstance(choices, str) or not isinstance(text2, str | None):
        return None
    choices = tuple(choices)
    fits = len(choices) > 1 and _are_texts(text, *choices)
    return ChoiceExample(text, choices, text2 or "") if fits else None


def _source(given: Any) -> GenerationExample | None:
    if isinstance(given, Mapping):
        (given,) = _fields(given, GenerationExample, ("source",))
    return GenerationExample(given) if _are_texts(given) else None


_MAKERS: dict[str, Callable[[Any], Example | None]] = {
    "classification": _text,
    "regression": _text,
    "tagging": _tagging,
    "span": _span,
    "multiple-choice": _choices,
    "generation": _source,
}


def _fields(given: Any, cls: type, names: Sequence[str]) -> list[Any]:
    """The values of an input, one a name, or of a mapping that has fields of such an example."""
    if isinstance(given, str):
        raise TypeError("one text")
    if not isinstance(given, Mapping):
        return list(given)
    known = {field.name for field in fields(cls)}
    if not set(given) <= known:
        raise ValueError(f"unknown {sorted(set(given) - known)}")
    return [given.get(name) for name in names]


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) and value.strip() for value in values)


def _shown(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else shown[:77] + "..."
