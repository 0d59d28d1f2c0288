"""The examples of one task with their instances, which are trained on, evaluated and predicted, and
batches of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import torch

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.tasks.batch import TaskBatch
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.instances import Instance, Lengths
from bertwright.text.tokenizer.tokenizer import Tokenizer

PART_CHARACTERS = 1 << 24
"""The number of characters of a part's texts after which the next part begins, because few long
texts take as much memory as many short ones.
"""


class TaskData:
    """The examples of one task with their instances. It must not be changed."""

    def __init__(
        self, name: str, task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
    ) -> None:
        """Make the instances of the examples for the head `name`."""
        self.name, self.task, self.tokenizer, self.examples = name, task, tokenizer, examples
        self.instances: list[Instance]
        self.lengths: Lengths
        self.instances, self.lengths = kind_of(task.kind).make(task, tokenizer, examples)

    @cached_property
    def num_tokens(self) -> int:
        """The number of tokens of all windows, which one pass over the data costs."""
        return sum(instance.num_tokens for instance in self.instances)

    def warnings(self, what: str = "examples") -> list[str]:
        """Return a warning about tokens that are not read, if there are any."""
        return self.lengths.warnings(kind_of(self.task.kind).room(self.task), what)

    @property
    def coverage(self) -> tuple[int, int]:
        """For a model whose tokens are words: the number of words in all windows, and how many are
        unknown.
        """
        unknown = self.tokenizer.unk_id
        others = self.tokenizer.special_ids - {unknown}
        windows = [window for instance in self.instances for window in instance.ids]
        added = sum(window.count(id) for window in windows for id in others)
        return self.num_tokens - added, sum(window.count(unknown) for window in windows)


def make_batch(
    name: str,
    task: TaskConfig,
    instances: Sequence[Instance],
    rows: Sequence[int],
    device: torch.device | str = "cpu",
    with_labels: bool = True,
) -> TaskBatch:
    """Return the batch of the instances with the indices `rows`, for the head `name`."""
    chosen = [instances[row] for row in rows]
    if not chosen:
        raise ValueError("a batch of no instances")
    if with_labels:
        for row, instance in zip(rows, chosen, strict=True):
            if instance.label is None:
                raise ValueError(
                    f"instance {row} has no label; make the batch with with_labels=False"
                )
    batch = kind_of(task.kind).collate(task, chosen, rows, with_labels)
    return replace(batch, task=name).to(device)


def task_parts(
    name: str, task: TaskConfig, tokenizer: Tokenizer, examples: Iterable[Example], at_once: int
) -> Iterator[TaskData]:
    """Yield the examples in parts of `at_once`, or fewer if their texts are long, as they are
    needed.

    Sentences that are read in the context of their document are in the same part, so the division
    into parts changes no result.
    """
    whole_documents = task.reads_documents
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
    """Return the approximate number of characters of an example, as a measure of its memory."""
    texts = (getattr(example, name, None) for name in ("text", "text2", "context", "source"))
    return sum(map(len, filter(None, texts)))


def joined(parts: Sequence[TaskData]) -> TaskData:
    """Return the parts of one task as one data set.

    Each part keeps its own instances, so the sentences of one part are not context for those of
    another.
    """
    whole = copy(parts[0])
    whole.__dict__.pop("num_tokens", None)
    whole.examples, whole.instances, whole.lengths = [], [], Lengths()
    for part in parts:
        before = len(whole.examples)
        whole.instances += [replace(n, example=n.example + before) for n in part.instances]
        whole.examples = [*whole.examples, *part.examples]
        whole.lengths.extend(part.lengths)
    return whole
