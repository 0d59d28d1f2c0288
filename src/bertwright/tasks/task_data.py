"""Examples of one task ready for a model: what training, evaluation and prediction read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.instances import Instance, Lengths
from bertwright.text.tokenizer.tokenizer import Tokenizer

PART_CHARACTERS = 1 << 24
"""Characters of the texts of a part after which the next one begins: few long texts are as much
memory as many short ones."""


class TaskData:
    """Examples of one task with their instances; not to be changed."""

    def __init__(
        self, name: str, task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
    ) -> None:
        """Make the instances, in the order of the examples of one data set, for the head `name`."""
        self.name, self.task, self.tokenizer, self.examples = name, task, tokenizer, examples
        made: tuple[list[Instance], Lengths] = kind_of(task.kind).make(task, tokenizer, examples)
        self.instances, self.lengths = made

    @cached_property
    def num_tokens(self) -> int:
        """Tokens of all windows: what one pass over the data costs."""
        return sum(instance.num_tokens for instance in self.instances)

    def warnings(self, what: str = "examples") -> list[str]:
        """Return a sentence about what of the texts is not read, if anything is."""
        return self.lengths.warnings(kind_of(self.task.kind).room(self.task), what)

    @property
    def coverage(self) -> tuple[int, int]:
        """Of a model whose tokens are words: how many there are in all windows, and how many of
        them are unknown."""
        unknown = self.tokenizer.unk_id
        others = self.tokenizer.special_ids - {unknown}
        windows = [window for instance in self.instances for window in instance.ids]
        added = sum(window.count(id) for window in windows for id in others)
        return self.num_tokens - added, sum(window.count(unknown) for window in windows)


def task_parts(
    name: str, task: TaskConfig, tokenizer: Tokenizer, examples: Iterable[Example], at_once: int
) -> Iterator[TaskData]:
    """Examples that are read as they are needed, `at_once` or fewer where they are long; sentences
    that are read in the context of their document are in one part, so that parts change nothing."""
    whole_documents = task.context == "document"
    part: list[Any] = []
    characters = 0
    for example in examples:
        if (len(part) >= at_once or characters > PART_CHARACTERS) and not (
            whole_documents and part[-1].document == cast(TaggingExample, example).document
        ):
            yield TaskData(name, task, tokenizer, part)
            part, characters = [], 0
        part.append(example)
        characters += _characters(example)
    if part:
        yield TaskData(name, task, tokenizer, part)


def _characters(example: Example) -> int:
    """Characters of the texts of an example, about: what it takes in memory."""
    texts = (getattr(example, name, None) for name in ("text", "text2", "context", "source"))
    return sum(map(len, filter(None, texts)))


def joined(parts: Sequence[TaskData]) -> TaskData:
    """Data of one task, one after the other. Each part keeps its own instances, so sentences to be
    tagged are no context across parts; what became of long texts stays with the parts."""
    whole = copy(parts[0])
    whole.__dict__.pop("num_tokens", None)
    whole.examples, whole.instances = [], []
    for part in parts:
        before = len(whole.examples)
        whole.instances += [replace(n, example=n.example + before) for n in part.instances]
        whole.examples = [*whole.examples, *part.examples]
    return whole
