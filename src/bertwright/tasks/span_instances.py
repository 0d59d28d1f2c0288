"""Questions with windows over their passage, for extractive answers.

Devlin et al. 2019, section 4.2: [CLS] question [SEP] passage [SEP], segments 0 and 1; a passage
longer than a window is read in several (`windows`). A question keeps 64 tokens, as in
google-research/bert `run_squad.py`, and never more than half of a window.

Where an answer is comes from character offsets alone, so that no normalization, script or blank
between words matters: it is all tokens that share a character with it. An answer that begins or
ends inside a token is widened to the whole token, and counted. A window that does not hold all of
the answer has the label (0, 0), its [CLS]: no answer here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast
from unicodedata import category

import numpy as np

from bertwright.arrays import Int64s
from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import Example, SpanExample
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.text_instances import check_text
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import Span, cut

LONGEST_QUESTION = 64
"""Tokens of a question that are read (`max_query_length` of `run_squad.py`)."""


@dataclass(frozen=True)
class _Passage:
    """A passage of P tokens."""

    ids: array[int]
    offsets: list[Span]
    starts: Int64s  # [P]
    stops: Int64s  # [P]


def make_span_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance a window; those of an example stand together, in the passage's order.

    Args:
        task: a span task.
        tokenizer: the model's.
        examples: `SpanExample`s; the first answer of each is the label, if it is where it says.

    Raises:
        DataError: an empty question or passage, with the line.
    """
    chosen = cast(Sequence[SpanExample], examples)
    longest = min(LONGEST_QUESTION, (task.max_length - 3) // 2)
    passages: dict[str, _Passage] = {}
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example in enumerate(chosen):
        check_text(example.question, "question", example.line, number)
        check_text(example.context, "context", example.line, number)
        passage = passages.get(example.context)
        if passage is None:
            passage = passages[example.context] = _passage(tokenizer, example.context)
        whole = tokenizer.encode(example.question).ids[1:-1]
        question = whole[:longest]
        answer = _answer(example, passage, lengths)
        head = [tokenizer.cls_id, *question, tokenizer.sep_id]
        spans = cut(len(passage.ids), task.max_length - len(head) - 1, task.stride)
        judges = _judges(spans, len(passage.ids))
        for window, (start, stop) in enumerate(spans):
            size = stop - start
            instances.append(
                Instance(
                    number,
                    (array("i", [*head, *passage.ids[start:stop], tokenizer.sep_id]),),
                    (array("b", bytes(len(head)) + b"\1" * (size + 1)),),
                    _label(answer, start, stop, len(head)),
                    offsets=[*[None] * len(head), *passage.offsets[start:stop], None],
                    has_most_context=_all_true(len(head), size)
                    if judges is None
                    else [*[False] * len(head), *(judges[start:stop] == window).tolist(), False],
                )
            )
        lengths.tokens.append(len(whole) + len(passage.ids) + 3)
        lengths.windows += len(spans)
        lengths.in_windows += len(spans) > 1
        lengths.cut += len(whole) > longest
        lengths.tokens_cut += max(0, len(whole) - longest)
    lengths.examples = len(chosen)
    return instances, lengths


def _passage(tokenizer: Tokenizer, context: str) -> _Passage:
    """The tokens of a passage."""
    encoding = tokenizer.encode(context)
    offsets = _with_marks(context, encoding.offsets[1:-1])
    bounds = np.array(offsets, np.int64).reshape(-1, 2)
    return _Passage(array("i", encoding.ids[1:-1]), offsets, bounds[:, 0], bounds[:, 1])


def _with_marks(context: str, offsets: list[Span]) -> list[Span]:
    """Offsets that hold the combining marks behind a token, which the uncased rules drop.

    Without them the answer "café", its accent a character of its own, would lose it.
    """
    if context.isascii():
        return offsets
    starts = {start for start, _ in offsets}
    whole = []
    for start, stop in offsets:
        while (
            stop < len(context) and stop not in starts and category(context[stop]).startswith("M")
        ):
            stop += 1
        whole.append((start, stop))
    return whole


def _answer(example: SpanExample, passage: _Passage, lengths: Lengths) -> Span | None:
    """First and last token of the answer to learn; (-1, -1) for none; None where it is not known.

    It is the first that is where it should be. It is lost if none is, or if the tokenizer keeps
    nothing of it.
    """
    if example.answers is None:
        return None
    if not example.answers:
        return -1, -1
    there = (
        (start, start + len(text))
        for text, start in example.answers
        if text and start >= 0 and example.context.startswith(text, start)
    )
    start, stop = next(there, (0, 0))
    first = int(np.searchsorted(passage.stops, start, "right"))
    last = int(np.searchsorted(passage.starts, stop, "left")) - 1
    if first > last:
        lengths.answers_lost += 1
        return -1, -1
    lengths.answers_widened += bool(passage.starts[first] < start or passage.stops[last] > stop)
    return first, last


def _label(answer: Span | None, start: int, stop: int, shift: int) -> Span | None:
    """Places of the answer in the window from `start` to `stop`, whose passage is at `shift`."""
    if answer is None or not (start <= answer[0] and answer[1] < stop):
        return None if answer is None else (0, 0)
    return answer[0] - start + shift, answer[1] - start + shift


def _judges(spans: Sequence[Span], length: int) -> Int64s | None:
    """[P] The window in which each token has most context (`windows.most_context`, of all tokens
    at once); None where there is one window."""
    if len(spans) == 1:
        return None
    most, judges = np.full(length, -1), np.zeros(length, np.int64)
    for window, (start, stop) in enumerate(spans):
        context = np.minimum(np.arange(stop - start), np.arange(stop - start)[::-1])
        better = context > most[start:stop]
        most[start:stop][better] = context[better]
        judges[start:stop][better] = window
    return judges


@lru_cache(maxsize=1 << 12)
def _all_true(before: int, size: int) -> tuple[bool, ...]:
    """`has_most_context` of an only window; windows of one shape share it."""
    return (False,) * before + (True,) * size + (False,)
