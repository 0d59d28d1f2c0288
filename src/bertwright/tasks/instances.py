"""Examples as ids: windows, labels as numbers, and where words are.

A text that is longer than a window is read in several, which share `stride` tokens; nothing is cut
without being counted. One file a kind of input makes the instances: `text_instances`,
`tagging_instances`, `span_instances`, `choice_instances`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_STRETCHES = 60
"""Bars of a histogram of lengths."""


@dataclass(frozen=True)
class Instance:
    """One example ready for a model; of a span task, one window of an example; of sentences tagged
    in their document, those that one window judges."""

    example: int
    """Number of the (first) example in its list."""
    ids: tuple[Sequence[int], ...]
    """Its windows, each with [CLS] and [SEP]."""
    types: tuple[Sequence[int], ...]
    """Their segments."""
    label: Any = None
    """Classification: number of the class; multi-label: numbers of classes; regression: a float;
    tagging: a number a word; span: places of the first and last token in the window, (0, 0) for no
    answer here; multiple choice: number of the choice. None: not known."""
    owners: tuple[int, ...] = ()
    """Multiple choice: which choice each window is of."""
    words: tuple[tuple[int, int], ...] = ()
    """Tagging: of every word, the window that judges it (the one with most context around it) and
    the place of its first piece there."""
    counts: tuple[int, ...] = (0,)
    """Tagging: words of each example; of other kinds there is one example."""
    offsets: Sequence[tuple[int, int] | None] = ()
    """Span: characters of the passage that each token of the window is from; None for others."""
    has_most_context: Sequence[bool] = ()
    """Span: whether a token has more context here than in any other window."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all windows."""
        return sum(map(len, self.ids))


@dataclass
class Lengths:
    """What became of long texts; told by every command that reads texts."""

    examples: int = 0
    tokens: list[int] = field(default_factory=list)
    """Tokens of each example, before windows."""
    in_windows: int = 0
    """Examples that were read in more than one window."""
    windows: int = 0
    cut: int = 0
    """Examples of which something could not be read even so (a question longer than the window):
    the rest was."""
    tokens_cut: int = 0
    answers_widened: int = 0
    """Answers that begin or end inside a token: the whole token is learned."""
    answers_lost: int = 0
    """Questions of whose answers none is where it should be, or of which the tokenizer keeps
    nothing: learned as without an answer."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: counts, and the quantiles and the histogram of the lengths."""
        ordered = sorted(self.tokens) or [0]
        at = {q: ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.9, 0.99)}
        answers = {"answers_widened": self.answers_widened, "answers_lost": self.answers_lost}
        return {
            "examples": self.examples,
            "in_windows": self.in_windows,
            "windows": self.windows,
            "cut": self.cut,
            "tokens_cut": self.tokens_cut,
            "median_tokens": at[0.5],
            "p90_tokens": at[0.9],
            "p99_tokens": at[0.99],
            "longest_tokens": ordered[-1],
            "histogram": self.histogram(),
            **(answers if any(answers.values()) else {}),
        }

    def histogram(self) -> dict[str, Any]:
        """How many examples have 0 to `width` - 1 tokens, the next `width`, and so on up
        to the length that 99 of 100 do not pass, and how many lie `beyond`."""
        end = sorted(self.tokens)[int(0.99 * len(self.tokens))] if self.tokens else 0
        width = end // MOST_STRETCHES + 1
        counts = Counter(length // width for length in self.tokens)
        inside = [counts.pop(place, 0) for place in range(end // width + 1)]
        return {"width": width, "counts": inside, "beyond": counts.total()}
