"""The replies of routes, as pydantic models: what a route's function makes, and what `/docs` shows.

Numbers of vectors stay NumPy arrays until `dump` writes them as JSON. As lists of Python floats
they would take eight times the memory, and twice the bytes of JSON, since a float32 has fewer
digits than a Python float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from bertwright.config.vectors import SimilarityFunction

T = TypeVar("T")


@dataclass(frozen=True)
class Nested:
    """Marks an array that is written as nested lists of numbers."""

    dimensions: int

    def __get_pydantic_core_schema__(self, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(np.ndarray)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number"}
        for _dimension in range(self.dimensions):
            schema = {"type": "array", "items": schema}
        return schema


Array = npt.NDArray[np.generic]
Vector = Annotated[Array, Nested(1)]
Matrix = Annotated[Array, Nested(2)]
Maps = Annotated[Array, Nested(4)]


def dump(value: object) -> bytes:
    """Return JSON of a reply, whose arrays become lists and whose unset keys are left out."""
    return orjson.dumps(value, _as_dict, orjson.OPT_SERIALIZE_NUMPY)


def _as_dict(value: object) -> dict[str, object]:
    """Return the keys of a model, which orjson does not know."""
    if not isinstance(value, BaseModel):
        raise TypeError(f"{type(value).__name__} is not JSON")
    given = value.model_fields_set
    return {name: item for name, item in vars(value).items() if name in given}


@dataclass
class Truncated:
    """An input that was truncated, by its number from 0."""

    input: int
    tokens_cut: int


class About(TypedDict):
    """The keys of every `Reply`."""

    model: str
    sha256: str
    layers: list[int]
    pooling: str | None
    normalized: bool
    tokens_used: int
    truncated: list[Truncated]
    unknown_words: NotRequired[int]


class Reply(BaseModel):
    """What every reply says of how it was made."""

    model: str
    sha256: str
    layers: list[int]
    pooling: str | None
    normalized: bool
    tokens_used: int
    truncated: list[Truncated]
    unknown_words: int | None = None
    """The number of unknown words, for models whose tokens are words."""


class Results(Reply, Generic[T]):
    """A result for each input."""

    results: list[T]


class TaskResults(Results[T], Generic[T]):
    """The predictions of a task head."""

    task: str


@dataclass
class NearWord:
    """A word, and the cosine of its vector with that of the requested word."""

    word: str
    cosine: float


class EmbedReply(Reply):
    """Vectors, as base64 where that was requested; those of int8 are `stored * scales[i]`."""

    vectors: Matrix | list[str]
    width: int
    dtype: str
    scales: list[float] | None = None


class EncodeReply(Reply):
    """A reply in the form of bert-as-service."""

    id: int | str | None
    status: int
    result: Matrix


class TokenVectors(BaseModel):
    """The tokens of a text and their vectors."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    vectors: Matrix


class TokenizedText(BaseModel):
    """The tokens of a text."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]


class SimilarityReply(Reply):
    """Cosines of each text with each, or of each sentence with the source sentence."""

    similarities: Matrix | Vector


class AttentionReply(Reply):
    """The attention maps of a text."""

    tokens: list[str]
    attentions: Maps
    """Indexed by layer, attention head, token, token."""


@dataclass
class RankedDocument:
    """A document and its relevance to the query."""

    index: int
    score: float


class RerankReply(Results[RankedDocument]):
    """Documents, the most relevant first."""

    task: str | None
    """The head that scored them, or the task that trained the vectors; null: a folder of
    sentence-transformers without a task."""
    label: str | None
    """The label whose probability the score is; null: the score is a number."""
    similarity: SimilarityFunction | None
    """The function of two vectors that gives the score; null: a head scored the documents."""


@dataclass
class Document:
    """A document that was ranked."""

    text: str


class RelevantDocument(BaseModel):
    """A document and its relevance to the query, in the form of Cohere and Jina."""

    index: int
    relevance_score: float
    document: Document | None = None
    """Set if `return_documents` was requested."""


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
    """A label and its probability; for regression, the label `value` and the number."""

    label: str
    score: float


@dataclass
class Entity:
    """Words that tags mark as one entity."""

    entity_group: str
    score: float
    word: str
    start: int | None
    end: int | None


class Tagged(BaseModel):
    """The words of a text and their tags."""

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
    """The answer to a question, and the best spans."""

    null_score: float | None
    answers: list[Span]


@dataclass
class Embedding:
    """The vector of one input, in the form of OpenAI."""

    object: Literal["embedding"]
    index: int
    embedding: Vector | str


class Usage(BaseModel):
    """The tokens of a request, in the form of OpenAI."""

    prompt_tokens: int
    total_tokens: int


class RankReply(BaseModel):
    """Documents, the most relevant first, in the form of Cohere and Jina."""

    id: str
    model: str
    results: list[RelevantDocument]
    usage: Usage


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
    """For beam search, the log-probability divided by the length penalty; else null."""


class GenerateReply(Results[T], Generic[T]):
    """Generated texts."""

    tokens_generated: int


class TextToTextReply(GenerateReply[list[GeneratedText]]):
    """The targets that a task head generated."""

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


class DefaultVectors(BaseModel):
    """How a model's vectors are made where a request does not say."""

    layers: list[int]
    pooling: str
    normalize: bool
    prompt: str
    max_tokens: int
    width: int


class ServedTask(BaseModel):
    """A task that a model has a head for."""

    name: str
    kind: str
    labels: list[str]
    multi_label: bool
    pairs: bool | None
    """Whether it was trained on pairs; null where its folder does not say."""


class ServedModel(BaseModel):
    """A model that is served: OpenAI's keys, and what it can do."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["bertwright"]
    sha256: str
    checkpoint: str | None
    damaged: list[str]
    layers: int
    attention_heads: int | None
    hidden_size: int
    max_tokens: int
    precision: str
    default: DefaultVectors
    examples: list[str]
    generates: bool
    vectors: bool
    words: bool
    """Whether each word of its vocabulary has a vector, which `/nearest` compares."""
    similarity: SimilarityFunction | None
    """The function that compares its sentence vectors; null where its folder does not say."""
    heads: list[str]
    tasks: list[ServedTask]


class ServedModels(BaseModel):
    """The models that are served, in the form of OpenAI."""

    object: Literal["list"]
    data: list[ServedModel]


class Error(BaseModel):
    """The error of a request: its code and its message."""

    code: str
    message: str
    type: str


class ErrorReply(BaseModel):
    """The body of every reply whose status is 400 or above."""

    error: Error
