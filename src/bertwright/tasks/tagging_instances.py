"""Sentences of words as ids, for tagging.

Devlin et al. 2019, section 5.3: every word is cut into pieces by itself, and its first piece is
what is tagged. A word of which the tokenizer keeps nothing, as a zero-width space, is [UNK]; one
that looks like a special token ("[SEP]") is cut like any other; so every word has a first piece.
A sentence longer than a window is read in several (`windows`), and a word is judged in the one
where its first piece has most context.

With `context = "document"` a window holds as many whole sentences of a document as leave a quarter
of it on each side to their context ("the maximal document context", Devlin et al. 2019; Luoma and
Pyysalo, COLING 2020, fill windows with neighbours likewise), and judges the words of these; a
document that fits is one window. What is free is filled up with the document's tokens, half left
and half right; what one side lacks the other gets.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise
from typing import cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.text_instances import label_number, place
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import Span, cut, most_context


def make_tagging_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance a sentence, or of documents one for each run of sentences (`_runs`).

    Args:
        task: a tagging task.
        tokenizer: the model's.
        examples: `TaggingExample`s; those of one document stand together, in its order.

    Raises:
        DataError: a tag that the task has not, or not one tag a word; with the line.
    """
    chosen = cast(Sequence[TaggingExample], examples)
    pieces = _pieces(tokenizer, chosen)
    numbers = {label: number for number, label in enumerate(task.labels)}
    room = task.max_length - 2
    instances: list[Instance] = []
    lengths = Lengths()
    done = 0
    for document in _documents(task, chosen):
        # One document, end to end: where each word begins, and each sentence.
        counts = np.array([len(pieces[word]) for e in document for word in e.words], np.int64)
        ids = array("i", [id_ for e in document for word in e.words for id_ in pieces[word]])
        begins = [0, *np.cumsum(counts).tolist()]
        ends = [0, *accumulate(len(example.words) for example in document)]  # words
        bounds = [begins[word] for word in ends]
        for first, last in _runs(bounds, room):
            spans = _windows(bounds[first], bounds[last], len(ids), room, task.stride)
            read = document[first:last]
            tags = [_numbers_of_tags(e, numbers, done + n) for n, e in enumerate(read, first)]
            instances.append(
                Instance(
                    done + first,
                    tuple(
                        array("i", [tokenizer.cls_id, *ids[a:b], tokenizer.sep_id])
                        for a, b in spans
                    ),
                    tuple(array("b", bytes(b - a + 2)) for a, b in spans),
                    None if None in tags else list(chain.from_iterable(filter(None, tags))),
                    words=_judged(spans, begins[ends[first] : ends[last]]),
                    counts=tuple(len(example.words) for example in read),
                )
            )
            lengths.windows += len(spans)
            lengths.in_windows += len(spans) > 1
        lengths.tokens += [stop - start + 2 for start, stop in pairwise(bounds)]
        done += len(document)
    lengths.examples = done
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


def _runs(bounds: Sequence[int], room: int) -> Iterator[Span]:
    """Sentences of a document that share windows: the first, and one after the last.

    Args:
        bounds: where each sentence begins in the document's tokens, and where the last ends.
        room: tokens of a window.
    """
    length, margin = bounds[-1], room // 4
    first = 0
    for last in range(1, len(bounds)):
        if last + 1 < len(bounds):
            start, stop = bounds[first], bounds[last + 1]
            if min(start, margin) + (stop - start) + min(length - stop, margin) <= room:
                continue
        yield first, last
        first = last


def _windows(start: int, stop: int, length: int, room: int, stride: int) -> list[Span]:
    """Windows over the sentences at `start` to `stop` of a document of `length` tokens."""
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
