"""Schemas of replies, for the OpenAPI document; `requests.Prepared` makes the JSON itself,
as validating large vectors would take longer than computing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class Truncated(BaseModel):
    """An input that was truncated, by its number from 0."""

    input: int
    tokens_cut: int


class Reply(BaseModel):
    """What every reply says of how it was made."""

    model: str
    sha256: str
    layers: list[int]
    pooling: str | None
    normalized: bool
    tokens_used: int
    truncated: list[Truncated]


class Results(Reply, Generic[T]):
    """A result an input."""

    results: list[T]


class TaskResults(Results[T], Generic[T]):
    """What task heads reply."""

    task: str


class EmbedReply(Reply):
    """Vectors, as base64 where that was requested; of int8 `stored * scales[i]`."""

    vectors: list[list[float]] | list[str]
    width: int
    dtype: str
    scales: list[float] | None = None


class EncodeReply(Reply):
    """A reply in the form of bert-as-service."""

    id: int | str | None
    status: int
    result: list[list[float]]


class TokenVectors(BaseModel):
    """A text, token by token."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    vectors: list[list[float]]


class TokenizedText(BaseModel):
    """The tokens of a text."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]


class SimilarityReply(Reply):
    """Cosines: each with each, or of each sentence with the source."""

    similarities: list[list[float]] | list[float]


class AttentionReply(Reply):
    """The attention maps of a text."""

    tokens: list[str]
    attentions: list[list[list[list[float]]]]
    """Layer, attention head, token, token."""


@dataclass
class RankedDocument:
    """A document and its relevance to the query."""

    index: int
    score: float


class RerankReply(TaskResults[RankedDocument]):
    """Documents, the most relevant first."""

    label: str | None
    """The label whose probability the score is."""


@dataclass
class FilledToken:
    """A token for a mask position."""

    score: float
    token: int
    token_str: str
    sequence: str


class Probability(BaseModel):
    """The probability that the second text of a pair follows the first."""

    probability: float


@dataclass
class LabelScore:
    """A label and its probability; of a regression the label `value` and the number."""

    label: str
    score: float


@dataclass
class Entity:
    """Words that tags mark as one."""

    entity_group: str
    score: float
    word: str
    start: int | None
    end: int | None


class Tagged(BaseModel):
    """A text's words and tags."""

    entities: list[Entity]
    words: list[str]
    tags: list[str]
    scores: list[float]
    offsets: list[tuple[int, int]] | None


@dataclass
class Span:
    """A slice of a passage."""

    answer: str
    start: int
    end: int
    score: float


@dataclass
class Answered(Span):
    """The answer to a question."""

    null_score: float | None
    answers: list[Span]


@dataclass
class Embedding:
    """The vector of one input, in the form of OpenAI."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """The tokens of a request, in the form of OpenAI."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(BaseModel):
    """Vectors in the form of OpenAI; headers `X-Bertwright-*` say more."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


@dataclass
class GeneratedText:
    """A text that continues a prompt."""

    text: str
    tokens: int
    reason: Literal["stop", "length"]
    """`stop`: a token or a string ended it; `length`: `max_new_tokens`, or the model's context."""
    score: float | None
    """Of beam search: its log-probability, by the length penalty."""


class GenerateReply(Results[T], Generic[T]):
    """Texts that were generated."""

    tokens_generated: int


class TextToTextReply(GenerateReply[list[GeneratedText]]):
    """Targets that a task head generated."""

    task: str


@dataclass
class Completion:
    """A completion in the form of OpenAI."""

    text: str
    index: int
    logprobs: None
    finish_reason: Literal["stop", "length"] | None


class CompletionUsage(Usage):
    """The tokens of a request and of its texts, in the form of OpenAI."""

    completion_tokens: int


class CompletionsReply(BaseModel):
    """Texts in the form of OpenAI; an event of a stream is the same with the text that is new."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Completion]
    usage: CompletionUsage | None


class Error(BaseModel):
    """The error of a request: its code and its message."""

    code: str
    message: str
    type: str


class ErrorReply(BaseModel):
    """Of every status from 400 on."""

    error: Error
