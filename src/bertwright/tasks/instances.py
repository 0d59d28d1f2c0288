"""Examples as ids in windows (`text/windows.py`). Each kind of task makes its own in its file; what
no window holds is counted in `Lengths`."""

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
"""Ids of each window, their segments, and how many tokens no window holds."""
_AT_ONCE = 1 << 22
"""Characters that are tokenized at once: ids as Python numbers take ten times their size."""


@dataclass(frozen=True)
class Instance:
    """One example ready for a model; each kind of task has a class of its own."""

    example: int
    """Number of the (first) example in its list."""
    ids: tuple[Sequence[int], ...]
    """Its windows, each with the model's special tokens: `[T]` ids, or `[T, C]`."""
    segments: tuple[Sequence[int], ...]
    """The segment of each token, window by window."""
    label: object = None
    """What the head is to predict; None: not known."""
    counts: tuple[int, ...] = (0,)
    """One number for each example that it holds; of most kinds there is one example."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all windows."""
        return sum(map(len, self.ids))


@dataclass
class Lengths:
    """How long the texts are and what no window held; every command that reads texts prints it."""

    examples: int = 0
    tokens: list[int] = field(default_factory=list)
    """Tokens of each example, before windows."""
    in_windows: int = 0
    """Examples that were read in more than one window."""
    windows: int = 0
    cut: int = 0
    """Examples of which something is not read even so (more than `max_windows`, a question longer
    than the window): the rest is."""
    tokens_cut: int = 0
    answers_lost: int = 0
    """Questions of whose answers none is where it should be, or of which the tokenizer keeps
    nothing: labelled as without an answer."""

    def add(self, tokens: int, windows: int, lost: int = 0, sequences: int = 1) -> None:
        """Count an example of so many sequences, of whose tokens some are lost."""
        self.examples += 1
        self.tokens.append(tokens)
        self.windows += windows
        self.in_windows += windows > sequences
        self.cut += lost > 0
        self.tokens_cut += lost

    def warnings(self, room: str, what: str = "examples") -> list[str]:
        """Return a sentence about what is not read, if anything is.

        Args:
            room: how much of a text is read (`TaskKind.room`).
            what: the examples, in words.
        """
        if not self.cut:
            return []
        return [
            f"{self.cut:,} {what} are longer than {room}: {self.tokens_cut:,} of their tokens are "
            "not read"
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: counts, and the quantiles of the lengths."""
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
    """At most so many windows of a text, or of a pair, with the model's special tokens.

    Ids are arrays of 32-bit numbers: 4 bytes a token where a list takes up to 40. What is beyond
    the windows of a text that is too long is not read; a pair loses the rest of both texts.
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
        kept = truncate_pair(len(first), len(second), room)
        first, second = first[: kept[0]], second[: kept[1]]
    pairs = split_pair(len(first), len(second), room, task.stride)[:most]
    return (
        tuple(array("i", framing.two(first[a:b], second[c:d])) for (a, b), (c, d) in pairs),
        tuple(segments_of(framing, b - a, d - c) for (a, b), (c, d) in pairs),
        tokens - pairs[-1][0][1] - pairs[-1][1][1],
    )


def tokenized(
    tokenizer: Tokenizer, examples: Sequence[E], texts_of: Callable[[E], dict[str, str]]
) -> Iterator[tuple[int, E, list[Sequence[int]]]]:
    """Each example with its number and the ids of its texts, of which many are tokenized at once.
    Raises `DataError` for a text that is empty or blank, by its name and line."""
    part: list[tuple[int, E, list[str]]] = []
    held = 0
    for number, example in enumerate(examples):
        texts = texts_of(example)
        for name, text in texts.items():
            check_text(text, name, example, number)
        part.append((number, example, [*texts.values()]))
        held += sum(map(len, texts.values())) + 256  # of an example itself
        if held > _AT_ONCE or number + 1 == len(examples):
            ids = iter(tokenizer.encode_bare_ids([text for *_, own in part for text in own]))
            for index, each, own in part:
                # a model that adds no tokens reads one unknown word where there is no word
                nothing = [] if tokenizer.framing.special_tokens() else [tokenizer.unk_id]
                yield index, each, [next(ids) or nothing for _ in own]
            part, held = [], 0


def whole_length(framing: Framing, first: Sequence[int], second: Sequence[int] | None) -> int:
    """Tokens of a text or pair with the model's special tokens, before windows."""
    return len(first) + len(second or ()) + framing.special_tokens(second is not None)


@lru_cache(maxsize=1 << 16)
def segments_of(framing: Framing, first: int, second: int | None = None) -> Sequence[int]:
    """The segments of a window; windows of equal lengths share them."""
    return array("b", framing.segments(first, second))


def check_text(text: str, name: str, example: Example, number: int) -> None:
    """Raise DataError for a text that is empty or blank."""
    if not text or text.isspace():
        where = in_words(example, number)
        raise DataError(f"{where}: {name} is empty; fill it in or take the line out")


def in_words(example: Example, number: int) -> str:
    """Where an example stands in its file, or which of its list it is, for messages."""
    return f"line {example.line}" if example.line else f"example {number}"
