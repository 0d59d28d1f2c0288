"""The bodies of requests, as pydantic models, which FastAPI validates and describes at `/docs`.

Types are strict: `true` is not a number, and `1.0` is not an integer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from bertwright.config.vectors import Pooling, poolings_of
from bertwright.errors import ConfigError

T = TypeVar("T")
POOLINGS = [name for name in get_args(Pooling) if name != "none"]


def _check_prompt(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("text", "expected text without NUL characters")
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("text", "expected text that is not empty")
    return _check_prompt(text)


def _check_pooling(name: str) -> str:
    with suppress(ConfigError):
        if "none" not in poolings_of(name):
            return name
    expected = f"expected one of {', '.join(POOLINGS)}, or some of them as cls+mean"
    raise PydanticCustomError("pooling", expected)


Text = Annotated[str, Field(min_length=1), AfterValidator(_check_text)]
Pair = Annotated[tuple[Text, Text], Field(strict=False)]
Items = Annotated[list[T], Field(min_length=1, fail_fast=True)]
"""A list of one or more items, whose validation ends at the first wrong one."""
Texts = Text | Items[Text]
TextsOrPairs = Text | Items[Text | Pair]
Layer = Annotated[int, Field(ge=-1000, le=1000)]
Layers = Layer | Annotated[list[Layer], Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Prompt = Annotated[str, Field(max_length=1024), AfterValidator(_check_prompt)]
"""A text that is put before every text of a request."""
Start = Annotated[str, AfterValidator(_check_prompt)]
"""A prompt to continue; may be empty."""
Count = Annotated[int, Field(ge=1, le=1 << 20)]
NoPenalty = Annotated[float, Field(ge=0, le=0)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]
Stops = Annotated[list[Stop], Field(max_length=16)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Probability = Annotated[float, Field(gt=0, le=1)]
Temperature = Annotated[float, Field(ge=0, le=100)]
Power = Annotated[float, Field(ge=-100, le=100)]
Factor = Annotated[float, Field(gt=0, le=100)]
Id = Annotated[int, Field(ge=-(2**53), le=2**53)] | Annotated[str, Field(max_length=200)]
Num = Annotated[int, Field(ge=1, le=32)]
Known = Field(examples=[*POOLINGS, "cls+mean"])
PoolingName = Annotated[str, Known, AfterValidator(_check_pooling)]


def _key(description: str, default: Any = ..., example: Any = None) -> Any:
    """Return the field of a key, which is required unless it has a default."""
    return Field(default, description=description, examples=None if example is None else [example])


def _show_example(schema: dict[str, Any]) -> None:
    """Add an example to a schema, made of the examples of its keys."""
    keys = schema.get("properties", {}).items()
    if shown := {name: key["examples"][0] for name, key in keys if "examples" in key}:
        schema["example"] = shown


def listed(value: object) -> list[Any]:
    """Return one value or several as a list."""
    return value if isinstance(value, list) else [value]


class Schema(BaseModel):
    """A JSON object, in which a null key counts as not given.

    It may be written as Hugging Face's clients do, with `inputs` for `input` and other keys in
    `parameters`.
    """

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_show_example)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        found = {name: value for name, value in given.items() if value is not None}
        if isinstance(found.get("parameters"), dict):
            more = found.pop("parameters")
            if found.keys() & more.keys():
                raise PydanticCustomError("twice", "a key is given twice")
            found |= more
        if "inputs" in found and "input" not in found:
            found["input"] = found.pop("inputs")
        return found


class NamedModel(Schema):
    """A request that may name the model."""

    model: Name | None = _key("Name of the model; unset: the first.", None)


class ModelRequest(NamedModel):
    """What every route of a model takes, except those of OpenAI's protocol."""

    truncate: bool = _key(
        "Truncate texts that are too long and say so; otherwise they are an error.", False
    )


class TaskRequest(ModelRequest):
    """What routes of task heads take."""

    task: Name | None = _key("Name of the task; needed if the model has several.", None)


class LayersRequest(ModelRequest):
    """A request that says from which layers, and how, vectors are made."""

    layers: Layers | None = _key(
        "0: embeddings; 1 and up: layers; negative: from the top; several are concatenated.", None
    )
    normalize: bool | None = _key("Scale every vector to length 1.", None)
    prompt: Prompt | None = _key('Text before every text, "" for none; unset: the default.', None)
    prompt_name: Name | None = _key("The name of such a prompt in the model's folder.", None)


class PoolingRequest(LayersRequest):
    """A request for vectors of texts."""

    pooling: PoolingName | None = _key("How the tokens of a text become one vector.", None)


class EmbedRequest(PoolingRequest):
    """The body of a request to `/embed`."""

    input: TextsOrPairs = _key("A text, or texts and pairs.", example=["a text", "another"])
    windows: bool = _key("Read long texts in windows.", False)
    dtype: Literal["float32", "float16", "int8", "binary"] = _key("Type of the numbers.", "float32")
    encoding: Literal["float", "base64"] = _key("Encoding of the vectors in the reply.", "float")


class EncodeRequest(ModelRequest):
    """The body of a request to `/encode`, as bert-as-service has it."""

    texts: TextsOrPairs = _key("Texts.", example=["a text"])
    id: Id | None = _key("Returned with the vectors.", None, example=1)
    is_tokenized: bool = _key("Must be false: the model tokenizes the texts itself.", False)


class TokensRequest(LayersRequest):
    """The body of a request to `/tokens`."""

    input: Texts = _key("A text or texts.", example="a text")
    windows: bool = _key("Read long texts in windows.", False)


class TokenizeRequest(ModelRequest):
    """The body of a request to `/tokenize`."""

    input: TextsOrPairs = _key("A text, or texts and pairs.", example="a text")


class NearestRequest(ModelRequest):
    """The body of a request to `/nearest`."""

    input: Text | Annotated[list[Text], Field(min_length=1, max_length=32)] = _key(
        "A word, or up to 32 words.", example="bank"
    )
    top_k: Annotated[int, Field(ge=1, le=1000)] = _key("The most words to return.", 10)


class Sentences(Schema):
    """A text, and the texts to compare with it."""

    source_sentence: Text
    sentences: Texts


class SimilarityRequest(PoolingRequest):
    """The body of a request to `/similarity`."""

    input: Texts | Sentences = _key(
        "Texts, or an object: one with `sentences`.", example=["a", "b"]
    )


class AttentionRequest(ModelRequest):
    """The body of a request to `/attention`."""

    input: Text | Pair = _key("A text or a pair.", example="a text")
    layers: Layers | None = _key("From 1; unset: all.", None)


class RerankRequest(TaskRequest):
    """The body of a request to `/rerank`."""

    query: Text = _key("What the documents are compared with.", example="a text")
    documents: Texts = _key("The documents to rank.", example=["a", "b"])
    top_k: Count | None = _key("The most documents to return; unset: all.", None)


class DocumentText(Schema, extra="ignore"):
    """A document as an object."""

    text: Text


class RankRequest(NamedModel, extra="ignore"):
    """The body of a request to `/v1/rerank`, as Cohere and Jina have it; other keys of theirs are
    ignored."""

    query: Text = _key("What the documents are compared with.", example="a text")
    documents: Items[Text | DocumentText] = _key(
        "Texts, or objects with `text`.", example=["a", "b"]
    )
    top_n: Count | None = _key("The most documents to return; unset: all.", None)
    top_k: Count | None = _key("The same as `top_n`, as `/rerank` and other servers name it.", None)
    return_documents: bool = _key("Return the text of each document.", False)
    task: Name | None = _key("Name of the head; needed where several score pairs.", None)


class FillRequest(ModelRequest):
    """The body of a request to `/fill-mask`."""

    input: Texts = _key("Texts with [MASK].", example="a [MASK]")
    top_k: Annotated[int, Field(ge=1, le=100)] = _key("The most tokens for each [MASK].", 5)


class NextSentenceRequest(ModelRequest):
    """The body of a request to `/next-sentence`."""

    input: Pair | Items[Pair] = _key("Two texts, or pairs of texts.", example=["a text", "b"])


class ClassifyRequest(TaskRequest):
    """The body of a request to `/classify`."""

    input: TextsOrPairs = _key(
        "Texts or pairs, whichever the head was trained on.", example="a text"
    )
    top_k: Count | None = _key("The most classes to return; unset: all.", None)


class TagRequest(TaskRequest):
    """The body of a request to `/tag`."""

    input: Text | Items[Text | Items[Text]] = _key("Texts, or lists of words.", example="a text")


class Question(Schema):
    """A question and the passage with its answer."""

    question: Text
    context: Text


class AnswerRequest(TaskRequest):
    """The body of a request to `/answer`."""

    input: Question | Items[Question] = _key(
        "`question` and `context`, or several.", example={"question": "what ?", "context": "a text"}
    )
    top_k: Annotated[int, Field(ge=1, le=20)] = _key("The most answers to return.", 1)


class Choices(Schema):
    """A text and its possible continuations, each of which begins with `text2`."""

    text: Text
    choices: Texts
    text2: Text | None = None


class ChooseRequest(TaskRequest):
    """The body of a request to `/choose`."""

    input: Choices | Items[Choices] = _key(
        "`text` and `choices`, or several.", example={"text": "a text", "choices": ["b", "c"]}
    )


class EmbeddingsRequest(NamedModel, extra="ignore"):
    """The body of a request to `/v1/embeddings`; other keys of OpenAI's are ignored."""

    input: Texts = _key(
        "Texts. Token ids are refused, as OpenAI's mean other words.",
        example=["a text"],
    )
    encoding_format: Literal["float", "base64"] = _key("Encoding of the vectors.", "float")
    dimensions: Count | None = _key("Keep this many numbers of a vector, scaled to length 1.", None)


class ContinueRequest(Schema):
    """How prompts are continued."""

    top_p: Probability = _key(
        "Sample from the fewest tokens whose probabilities reach this sum.", 1.0
    )
    top_k: Count | None = _key("Sample from this many tokens; unset: all.", None)
    repetition_penalty: Factor = _key(
        "Above 1, tokens that occurred before are less probable.", 1.0
    )
    stop: Stop | Stops = _key("A text ends before the first of these strings.", [])
    seed: Seed | None = _key("Seed of sampling; unset: another each time.", None)
    stream: bool = _key("Send text as it is generated, as server-sent events.", False)


class SampledRequest(ContinueRequest):
    """How prompts are continued, with the names of `bertwright generate`."""

    sample: bool = _key("Sample each token; otherwise take the most probable one.", False)
    temperature: Factor = _key("Logits are divided by it before sampling.", 1.0)


class GenerateRequest(ModelRequest, SampledRequest):
    """The body of a request to `/generate`, with the names of `bertwright generate`."""

    input: Start | Items[Start] = _key("Prompts, which may be empty.", example="Once upon")
    max_new_tokens: Count = _key("The most tokens of a text.", 128, example=8)
    num: Num = _key("The number of samples for each prompt.", 1)


class TextToTextRequest(TaskRequest, SampledRequest):
    """The body of a request to `/text2text`, with the names of `bertwright predict`."""

    input: Texts = _key("A source text, or texts.", example="a text")
    max_new_tokens: Count | None = _key(
        "The most tokens of a target; unset, and never more: as many as in training.", None
    )
    beam: Num = _key("Beams of beam search; 1: no beam search.", 1)
    length_penalty: Power = _key(
        "Beam search divides log-probabilities by the length to this power.", 1.0
    )
    num: Num = _key("Targets for each source: samples, or the best beams.", 1)


class TranslateRequest(ModelRequest):
    """The body of a request to `/translate`, with the names of `bertwright translate`."""

    input: Texts = _key("A sentence, or sentences.", example="a text")
    beam: Num = _key("Beams of beam search; 1: greedy.", 4)
    length_penalty: Power = _key("Scores are divided by ((5 + length) / 6) to this power.", 0.6)
    max_length: Count | None = _key(
        "The most tokens of a translation; unset: 50 more than the source.", None
    )
    stream: bool = _key("Send each translation as an event when it is done.", False)


class CompletionsRequest(NamedModel, ContinueRequest, extra="ignore"):
    """The body of a request to `/v1/completions`; other keys of OpenAI's are ignored, except those
    that would change the text, which are refused."""

    prompt: Start | Items[Start] = _key(
        "A text, or texts; token ids are refused.", example="Once upon"
    )
    max_tokens: Count = _key("The most tokens of a text.", 16, example=8)
    temperature: Temperature = _key(
        "Logits are divided by it; 0 takes the most probable token.", 1.0
    )
    n: Num = _key("The number of texts for each prompt.", 1)
    suffix: Literal[""] = _key("Not supported, as are all keys below.", "")
    frequency_penalty: NoPenalty = 0.0
    presence_penalty: NoPenalty = 0.0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] = {}
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    logprobs: None = None
