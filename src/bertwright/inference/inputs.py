"""Convert the inputs of `Model.predict` to examples of the task.

| kind | an input |
|---|---|
| classification, regression | a text, or two texts |
| tagging | a text, or its words |
| span | a question and a passage |
| multiple choice | a text and a list of choices |
| generation | a source |

An input of any kind may also be a mapping of the example's fields (`text`, `text2`, `words`,
`question`, `context`, `choices`). In multiple choice, `text2` is the beginning of every choice
(SWAG's second sentence).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example
from bertwright.tasks.catalogue import kind_of


def make_examples(task: TaskConfig, inputs: Iterable[Any]) -> list[Example]:
    """Return one example for each input.

    Raises:
        DataError: this kind of task does not take an input, or a text is empty; names its number,
            from 1.
    """
    kind = kind_of(task.kind)
    table = hasattr(inputs, "columns")
    if table or isinstance(inputs, (str, bytes, Mapping)) or not isinstance(inputs, Iterable):
        what = "a table: give one column, or its rows as a list" if table else "put it in a list"
        raise DataError(
            f"predict takes a list of inputs, each {kind.expected_input}; this is one "
            f"{type(inputs).__name__}: {what}"
        )
    examples: list[Example] = []
    for number, given in enumerate(inputs, 1):
        try:
            example = None if isinstance(given, Set) else kind.parse_input(given)
        except (TypeError, ValueError):
            example = None
        if example is None:
            raise DataError(
                f"input {number} is {_shown(given)}; expected {kind.expected_input}, none of "
                f"them empty, as this model's task is {task.kind}"
            )
        examples.append(example)
    return examples


def _shown(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else shown[:77] + "..."
