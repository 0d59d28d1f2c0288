"""What a user hands to `Model.predict`, as examples of the task.

| kind | an input |
|---|---|
| classification, regression | a text, or two texts |
| tagging | a text, or its words |
| span | a question and a passage |
| multiple choice | a text and a list of choices |

What begins every choice (SWAG's second sentence) is given in a mapping, as `text2`. A mapping with
the names of the example's fields (`text`, `text2`, `words`, `question`, `context`,
`choices`) is taken by every kind.
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
}


def make_examples(task: TaskConfig, inputs: Iterable[Any]) -> list[Example]:
    """One example an input.

    Raises:
        DataError: an input that this kind of task does not take, or an empty text; names its
            number, from 1.
    """
    if isinstance(inputs, (str, bytes, Mapping)) or not isinstance(inputs, Iterable):
        raise DataError(
            f"predict takes a list of inputs, each {_EXPECTED[task.kind]}; "
            f"this is one {type(inputs).__name__}: put it in a list"
        )
    if hasattr(inputs, "columns"):
        raise DataError(
            f"predict takes a list of inputs, each {_EXPECTED[task.kind]}; this is a "
            f"{type(inputs).__name__}, a table: give one column, or its rows as a list"
        )
    found: list[Example] = []
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
        found.append(example)
    return found


def _text(given: Any) -> TextExample | None:
    if isinstance(given, Mapping):
        text, text2 = _named(given, TextExample, ("text", "text2"))
    elif isinstance(given, str):
        text, text2 = given, None
    else:
        text, text2 = given
    if not _is_text(text) or not (text2 is None or _is_text(text2)):
        return None
    return TextExample(text, text2)


def _tagging(given: Any) -> TaggingExample | None:
    if isinstance(given, Mapping):
        text, words = _named(given, TaggingExample, ("text", "words"))
        given = text if words is None else words
    if isinstance(given, str):
        return text_example(given, 0) if _is_text(given) else None
    words = tuple(given)
    return TaggingExample(words) if words and all(map(_is_text, words)) else None


def _span(given: Any) -> SpanExample | None:
    if isinstance(given, Mapping):
        given = _named(given, SpanExample, ("question", "context"))
    if isinstance(given, str):
        return None
    question, context = given
    return SpanExample(question, context) if _is_text(question) and _is_text(context) else None


def _choices(given: Any) -> ChoiceExample | None:
    text2: Any = None
    if isinstance(given, Mapping):
        text, choices, text2 = _named(given, ChoiceExample, ("text", "choices", "text2"))
    else:
        text, choices = given
    if isinstance(choices, str) or not _is_text(text) or not isinstance(text2, str | None):
        return None
    choices = tuple(choices)
    if len(choices) < 2 or not all(map(_is_text, choices)):
        return None
    return ChoiceExample(text, choices, text2 or "")


_MAKERS: dict[str, Callable[[Any], Example | None]] = {
    "classification": _text,
    "regression": _text,
    "tagging": _tagging,
    "span": _span,
    "multiple-choice": _choices,
}


def _named(given: Mapping[str, Any], cls: type, names: Sequence[str]) -> list[Any]:
    """The values of a mapping; what else it holds must at least be of such an example."""
    known = {field.name for field in fields(cls)}
    if not set(given) <= known:
        raise ValueError(f"unknown {sorted(set(given) - known)}")
    return [given.get(name) for name in names]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _shown(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else shown[:77] + "..."
