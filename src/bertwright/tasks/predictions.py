"""The predictions of a model for an example; `as_dict` is the JSON that `bertwright predict`
writes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from bertwright.errors import DataError, shorten


def read_number(value: Any, where: str) -> float:
    """Return the number that a file of predictions has at a place."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: the prediction is {shorten(value)}; expected a number")
    return number


class _Fields:
    def as_dict(self: Any) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class TextPrediction(_Fields):
    """A predicted class, or set of labels, and the probability of every class."""

    label: str | tuple[str, ...]
    """The most probable class; with multi-label, the labels with a probability of 0.5 or more."""
    scores: dict[str, float]


@dataclass(frozen=True)
class NumberPrediction(_Fields):
    """The number that regression predicts for a text."""

    value: float


@dataclass(frozen=True)
class Entity:
    """A run of words that is one entity."""

    label: str
    start: int
    """The first character in the text, or the first word if only words were given."""
    end: int
    """One after the last character or word."""
    text: str
    score: float
    """The mean probability of the entity's tags."""


@dataclass(frozen=True)
class TaggingPrediction(_Fields):
    """A tag for every word, and the entities that the tags mark."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each tag."""
    entities: tuple[Entity, ...]
    offsets: tuple[tuple[int, int], ...] | None = None
    """The start and end of each word in the text, in characters, if a text was given."""


@dataclass(frozen=True)
class Answer:
    """A slice of the passage: `context[start:end] == text`."""

    text: str
    start: int
    end: int
    score: float
    """The start score plus the end score."""
    probability: float
    """The softmax of the scores of the `n_best` answers."""


@dataclass(frozen=True)
class SpanPrediction(_Fields):
    """The best answer, "" if there is none, and the alternatives."""

    answer: str
    start: int
    end: int
    score: float
    null_score: float
    """The score of no answer minus that of the best span. Above the threshold, the answer is ""."""
    n_best: tuple[Answer, ...]


@dataclass(frozen=True)
class ChoicePrediction(_Fields):
    """The index of the most probable choice, and the probability of each."""

    choice: int
    scores: tuple[float, ...]


@dataclass(frozen=True)
class GenerationPrediction(_Fields):
    """The text that was generated from a source."""

    text: str
    score: float | None = None
    """For beam search: the log-probability divided by the length to the power of the length
    penalty.
    """
    others: tuple[str, ...] = ()
    """Further samples, or the next best beams, if several were requested."""


@dataclass(frozen=True)
class SimilarityPrediction(_Fields):
    """How similar two texts are."""

    value: float
    """The cosine of their vectors."""
    rank: int | None = None
    """The rank of the second text among all second texts and hard negatives of the file, from 1;
    None except in an evaluation of pairs.
    """
    margin: float | None = None
    """The cosine of the second text minus that of the nearest hard negative; None if there are no
    hard negatives.
    """


Prediction = (
    TextPrediction
    | SimilarityPrediction
    | NumberPrediction
    | TaggingPrediction
    | SpanPrediction
    | ChoicePrediction
    | GenerationPrediction
)
