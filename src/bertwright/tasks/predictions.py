"""What a model predicts for an example; `as_dict` is the JSON that `bertwright predict` writes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


class _Fields:
    def as_dict(self: Any) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class TextPrediction(_Fields):
    """A class and the probability of each."""

    label: str | tuple[str, ...]
    """The likeliest class; with multi-label, those whose probability is 0.5 or more."""
    scores: dict[str, float]


@dataclass(frozen=True)
class NumberPrediction(_Fields):
    """The number that regression predicts for a text."""

    value: float


@dataclass(frozen=True)
class Entity:
    """Neighbouring words under one label."""

    label: str
    start: int
    """First character in the text, or first word where only words were given."""
    end: int
    """One after the last."""
    text: str
    score: float
    """Mean probability of its tags."""


@dataclass(frozen=True)
class TaggingPrediction(_Fields):
    """A tag for every word, and the entities they mark."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    """Probability of each tag."""
    entities: tuple[Entity, ...]
    offsets: tuple[tuple[int, int], ...] | None = None
    """Characters of the text each word is from, where a text was given."""


@dataclass(frozen=True)
class Answer:
    """A slice of the passage: `context[start:end] == text`."""

    text: str
    start: int
    end: int
    score: float
    """Start score + end score."""
    probability: float
    """Among the n best."""


@dataclass(frozen=True)
class SpanPrediction(_Fields):
    """The answer, or "" for none, and the runners-up."""

    answer: str
    start: int
    end: int
    score: float
    null_score: float
    """Score of no answer minus that of the best span; above the threshold there is none."""
    n_best: tuple[Answer, ...]


@dataclass(frozen=True)
class ChoicePrediction(_Fields):
    """The number of the likeliest choice, and the probability of each."""

    choice: int
    scores: tuple[float, ...]


@dataclass(frozen=True)
class GenerationPrediction(_Fields):
    """The text that was written from a source."""

    text: str
    score: float | None = None
    """Of beam search: its log-probability over its length to the power of the penalty."""
    others: tuple[str, ...] = ()
    """More samples, or the next best beams, where several were asked for."""


Prediction = (
    TextPrediction
    | NumberPrediction
    | TaggingPrediction
    | SpanPrediction
    | ChoicePrediction
    | GenerationPrediction
)
