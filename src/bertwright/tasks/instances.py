"""Instances: examples as token ids in windows (`text/windows.py`).

Each kind of task defines its own class of instances. Tokens that no window holds are counted in
`Lengths`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import holds, split, split_pair, truncate_pair

E = TypeVar("E", bound=Example)

Windows = tuple[tuple[Sequence[int], ...], tuple[Sequence[int], ...], int]
"""The ids of each window, their segments, and the number of tokens that no window holds."""
AT_ONCE = 1 << 22
"""The number of characters that are tokenized at once; ids as Python integers take ten times the
memory of the text.
"""


@dataclass(frozen=True)
class Instance:
    """One example ready for a model; each kind of task has its own subclass."""

    example: int
    """The index of the (first) example in its list."""
    ids: tuple[Sequence[int], ...]
    """The ids of its windows, each with the model's special tokens: `[T]`, or `[T, C]`."""
    segments: tuple[Sequence[int], ...]
    """The segment of each token, for each window."""
    label: object = None
    """The label that the head is trained to predict; None if it is not known."""
    counts: tuple[int, ...] = (0,)
    """A count for each example that the instance holds. In most kinds, it holds one example."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all windows."""
        return sum(map(len, self.ids))


@dataclass
class Lengths:
    """Statistics of the lengths of texts and of the tokens that no window holds. Every command that
    reads texts prints them.
    """

    examples: int = 0
    tokens: list[int] = field(default_factory=list)
    """The number of tokens of each example, before it is divided into windows."""
    in_windows: int = 0
    """The number of examples that were read in more than one window."""
    windows: int = 0
    cut: int = 0
    """The number of examples that were truncated: they need more than `max_windows` windows, or
    have a question that is longer than its part of the window.
    """
    tokens_cut: int = 0
    answers_lost: int = 0
    """The number of questions without a usable answer: no answer is at its start offset, or the
    tokenizer removes all of it. They are labelled as unanswerable.
    """

    def add(self, tokens: int, windows: int, lost: int = 0, sequences: int = 1) -> None:
        """Count an example with `tokens` tokens, of which `lost` are not read.

        The example is read in `windows` windows; without division, it would be read in `sequences`.
        """
        self.examples += 1
        self.tokens.append(tokens)
        self.windows += windows
        self.in_windows += windows > sequences
        self.cut += lost > 0
        self.tokens_cut += lost

    def extend(self, others: Lengths) -> None:
        """Count the examples of `others` too."""
        for name, value in vars(others).items():
            setattr(self, name, getattr(self, name) + value)

    def warnings(self, room: str, what: str = "examples") -> list[str]:
        """Return a warning about tokens that are not read, if there are any.

        Args:
            room: how much of a text is read (`Kind.room`).
            what: the word for examples in the warning.
        """
        if not self.cut:
            return []
        return [
            f"{self.cut:,} {what} are longer than {room}: {self.tokens_cut:,} of their tokens are "
            "not read"
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the quantiles of the lengths, for JSON."""
        ordered = sorted(self.tokens) or [0]
        counts = vars(self) | {
            "median_tokens": ordered[len(ordered) // 2],
            "p90_tokens": ordered[int(0.9 * len(ordered))],
            "longest_tokens": ordered[-1],
        }
        left_out = {"tokens"} if self.answers_lost else {"tokens", "answers_lost"}
        return {name: value for name, value in counts.items() if name not in left_out}


def make_windows(
    task: TaskConfig,
    framing: Framing,
    first: Sequence[int],
    second: Sequence[int] | None = None,
    most: int | None = None,
) -> Windows:
    """Return at most `most` windows of a text, or of a pair, with the model's special tokens.

    A text that does not fit in its windows is truncated; in a pair, both texts may be. Ids are
    arrays of 32-bit integers, which take 4 bytes for each token; a list takes up to 40.
    """
    most = most or task.most_windows
    room = task.max_length - framing.special_tokens(second is not None)
    if second is None:
        spans = split(min(len(first), holds(most, room, task.stride)), room, task.stride)
        return (
            tuple(array("i", framing.one(first[a:b])) for a, b in spans),
            tuple(segments_of(framing, b - a) for a, b in spans),
            len(first) - spans[-1][1],
        )
    tokens = len(first) + len(second)
    if most == 1:
        first_length, second_length = truncate_pair(len(first), len(second), room)
        first, second = first[:first_length], second[:second_length]
    pairs = split_pair(len(first), len(second), room, task.stride)[:most]
    return (
        tuple(array("i", framing.two(first[a:b], second[c:d])) for (a, b), (c, d) in pairs),
        tuple(segments_of(framing, b - a, d - c) for (a, b), (c, d) in pairs),
        tokens - pairs[-1][0][1] - pairs[-1][1][1],
    )


def tokenized(
    tokenizer: Tokenizer, examples: Sequence[E], texts_of: Callable[[E], dict[str, str]]
) -> Iterator[tuple[int, E, list[Sequence[int]]]]:
    """Yield each example with its index and the ids of its texts, tokenizing many texts at once."""
    part: list[tuple[int, E, list[str]]] = []
    held = 0
    for number, example in enumerate(examples):
        texts = texts_of(example)
        for name, text in texts.items():
            check_text(text, name, example, number)
        part.append((number, example, [*texts.values()]))
        held += sum(map(len, texts.values())) + 256  # for the example object itself
        if held > AT_ONCE or number + 1 == len(examples):
            ids = iter(
                tokenizer.encode_bare_ids([text for *_, own_texts in part for text in own_texts])
            )
            for index, each, own_texts in part:
                # a model without special tokens needs at least one token: the unknown word
                nothing = [] if tokenizer.framing.special_tokens() else [tokenizer.unk_id]
                yield index, each, [next(ids) or nothing for _ in own_texts]
            part, held = [], 0


def whole_length(framing: Framing, first: Sequence[int], second: Sequence[int] | None) -> int:
    """Return the length of a text or pair with the model's special tokens, before it is divided
    into windows.
    """
    return len(first) + len(second or ()) + framing.special_tokens(second is not None)


@lru_cache(maxsize=1 << 16)
def segments_of(framing: Framing, first: int, second: int | None = None) -> Sequence[int]:
    """Return the segments of a window; windows of equal lengths share one array."""
    return array("b", framing.segments(first, second))


def check_text(text: str, name: str, example: Example, number: int) -> None:
    """Raise DataError if a text is empty or blank."""
    if not text or text.isspace():
        where = in_words(example, number)
        raise DataError(f"{where}: {name} is empty; fill it in or remove the line")


def in_words(example: Example, number: int) -> str:
    """Return the place of an example for messages: its line in the file, or its index in the
    list.
    """
    return f"line {example.line}" if example.line else f"example {number}"
