"""Sentences of words as ids, for tagging.

Devlin et al. 2019, section 5.3: every word is cut into pieces by itself, and its first piece is
what is tagged. A word of which the tokenizer keeps nothing, as a zero-width space, is [UNK]; one
that looks like a special token ("[SEP]") is cut like any other; so every word has a first piece.
A sentence longer than a window is read in several (`windows`), and a word is judged in the one
where its first piece has most context.

With `context = "document"` a window is filled up, half left and half right, with the tokens of the
same document that stand around the sentence ("the maximal document context", Devlin et al. 2019;
Luoma and Pyysalo, COLING 2020); what one side lacks the other gets. Only the sentence's own words
are judged.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.progress import OnProgress, silent
from bertwright.tasks.examples import Example, TaggingExample
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.text_instances import label_number, place
from bertwright.tasks.windows import Span, cut, most_context
from bertwright.text.tokenizer import Tokenizer

_TOLD_EVERY = 1000  # examples


def make_tagging_instances(
    task: TaskConfig,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    on_progress: OnProgress = silent,
) -> tuple[list[Instance], Lengths]:
    """One instance a sentence.

    Args:
        task: a tagging task.
        tokenizer: the model's.
        examples: `TaggingExample`s; those of one document stand together, in its order.
        on_progress: called with the examples done.

    Raises:
        DataError: a tag that the task has not, or not one tag a word; with the line.
    """
    chosen = cast(Sequence[TaggingExample], examples)
    pieces = _pieces(tokenizer, chosen)
    numbers = {label: number for number, label in enumerate(task.labels)}
    room = task.max_length - 2
    instances: list[Instance] = []
    lengths = Lengths()
    for document in _documents(task, chosen):
        # One document, end to end: where each word begins, and each sentence.
        counts = np.array([len(pieces[word]) for e in document for word in e.words], np.int64)
        ids = array("i", [id_ for e in document for word in e.words for id_ in pieces[word]])
        begins = [0, *np.cumsum(counts).tolist()]
        word = 0
        for example in document:
            firsts = begins[word : word + len(example.words)]
            start, stop = begins[word], begins[word + len(example.words)]
            word += len(example.words)
            spans = _windows(start, stop, len(ids), room, task.stride)
            number = len(instances)
            label = _numbers_of_tags(example, numbers, number)
            instances.append(
                Instance(
                    number,
                    tuple(
                        array("i", [tokenizer.cls_id, *ids[a:b], tokenizer.sep_id])
                        for a, b in spans
                    ),
                    tuple(array("b", bytes(b - a + 2)) for a, b in spans),
                    label,
                    words=_judged(spans, firsts),
                )
            )
            lengths.tokens.append(stop - start + 2)
            lengths.windows += len(spans)
            lengths.in_windows += len(spans) > 1
            if not len(instances) % _TOLD_EVERY:
                on_progress(len(instances), len(chosen))
    on_progress(len(instances), len(chosen))
    lengths.examples = len(instances)
    return instances, lengths


def _pieces(tokenizer: Tokenizer, examples: Sequence[TaggingExample]) -> dict[str, list[int]]:
    """Every distinct word with its ids, one at least."""
    words = list(dict.fromkeys(word for example in examples for word in example.words))
    found, counts = tokenizer.encode_sentence_ids(words)
    ids, stops = found.tolist(), np.cumsum(counts).tolist()
    return {
        word: ids[start:stop] or [tokenizer.unk_id]
        for word, (start, stop) in zip(words, pairwise([0, *stops]), strict=True)
    }


def _documents(
    task: TaskConfig, examples: Sequence[TaggingExample]
) -> Iterator[list[TaggingExample]]:
    """The sentences that are each other's context."""
    if task.context == "sentence":
        return ([example] for example in examples)
    return (list(group) for _, group in groupby(examples, key=lambda example: example.document))


def _windows(start: int, stop: int, length: int, room: int, stride: int) -> list[Span]:
    """Windows over the sentence at `start` to `stop` of a document of `length` tokens."""
    if stop - start > room:
        return [(start + a, start + b) for a, b in cut(stop - start, room, stride)]
    free = room - (stop - start)
    left = min(start, max(free // 2, free - (length - stop)))
    return [(start - left, min(length, stop + free - left))]


def _judged(spans: Sequence[Span], firsts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Of every word, its window and the place of its first piece there, behind [CLS]."""
    if len(spans) == 1:
        return tuple((0, first - spans[0][0] + 1) for first in firsts)
    chosen = [most_context(spans, first) for first in firsts]
    return tuple((w, first - spans[w][0] + 1) for w, first in zip(chosen, firsts, strict=True))


def _numbers_of_tags(
    example: TaggingExample, numbers: dict[str, int], number: int
) -> list[int] | None:
    """The number of every tag; None where they are not known."""
    if example.tags is None:
        return None
    where = place(example.line, number)
    if len(example.tags) != len(example.words):
        raise DataError(
            f"{where}: {len(example.words)} words with {len(example.tags)} tags; expected one each"
        )
    try:
        return [numbers[tag] for tag in example.tags]
    except KeyError:
        for at, (word, tag) in enumerate(zip(example.words, example.tags, strict=True), 1):
            label_number(numbers, tag, f"{where}, word {at} ({word!r})")
        raise
