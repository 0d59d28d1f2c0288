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

from collections.abc import Iterable, Mapping, Set
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

_KINDS: dict[str, tuple[type, tuple[str, ...], str]] = {
    "classification": (TextExample, ("text", "text2"), "a text, or two texts"),
    "regression": (TextExample, ("text", "text2"), "a text, or two texts"),
    "tagging": (TaggingExample, ("text", "words"), "a text, or a list of words"),
    "span": (SpanExample, ("question", "context"), "a question and a passage"),
    "multiple-choice": (
        ChoiceExample,
        ("text", "choices", "text2"),
        "a text and a list of choices",
    ),
    "generation": (GenerationExample, ("source",), "a source text"),
}
"""The example of a kind of task, its fields that an input has, and what is expected of a user."""


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
            f"predict takes a list of inputs, each {_KINDS[task.kind][2]}; this is one "
            f"{type(inputs).__name__}: {what}"
        )
    examples: list[Example] = []
    for number, given in enumerate(inputs, 1):
        try:
            example = None if isinstance(given, Set) else _example(task.kind, given)
        except (TypeError, ValueError):
            example = None
        if example is None:
            raise DataError(
                f"input {number} is {_shown(given)}; expected {_KINDS[task.kind][2]}, none of "
                f"them empty, as this model's task is {task.kind}"
            )
        examples.append(example)
    return examples


def _example(kind: str, given: Any) -> Example | None:
    """An input as an example; None, a TypeError or a ValueError where it is none."""
    cls, names, _ = _KINDS[kind]
    if isinstance(given, Mapping):
        if not set(given) <= {field.name for field in fields(cls)}:
            return None
        values = [given.get(name) for name in names]
    elif isinstance(given, str):
        values = [given]
    else:
        values = [None, given] if kind == "tagging" else list(given)
        if len(values) != 2:
            return None
    slots: list[Any] = [*values, None, None]
    first, second, third = slots[:3]
    match kind:
        case "tagging" if second is None:
            return text_example(first, 0) if _are_texts(first) else None
        case "tagging":
            words = tuple(second)
            return TaggingExample(words) if words and _are_texts(*words) else None
        case "span":
            return SpanExample(first, second) if _are_texts(first, second) else None
        case "multiple-choice":
            choices = () if isinstance(second, str) else tuple(second)
            fits = len(choices) > 1 and _are_texts(first, *choices)
            fits = fits and isinstance(third, str | None)
            return ChoiceExample(first, choices, third or "") if fits else None
        case "generation":
            return GenerationExample(first) if len(values) == 1 and _are_texts(first) else None
    fits = _are_texts(first, first if second is None else second)
    return TextExample(first, second) if fits else None


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) and value.strip() for value in values)


def _shown(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else shown[:77] + "..."
