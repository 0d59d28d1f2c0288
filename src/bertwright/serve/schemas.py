"""Schemas of requests, as pydantic models: they validate bodies and make the OpenAPI document.

Types are strict: true is no number, 1.0 no whole number. `read_body` turns what pydantic finds into
a message that names the key and what was expected, never what came: no error repeats a text.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from bertwright.config.vectors import Combine, Pooling, poolings_of
from bertwright.errors import ConfigError
from bertwright.serve.errors import HttpError, invalid_request

T = TypeVar("T")
B = TypeVar("B", bound=BaseModel)
POOLINGS = [name for name in get_args(Pooling) if name != "none"]
MAX_PROMPT = 1024
"""Characters: it is read with every text of a request."""
MAX_NUM = 32
"""Texts of a prompt."""


def _check_prompt(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("text", "expected text without NUL characters")
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("text", "expected text that is not empty")
    return _check_prompt(text)


def _check_pooling(name: str) -> str:
    try:
        poolings_of(name)
    except ConfigError:
        name = "none"
    if name == "none":
        expected = f"expected one of {', '.join(POOLINGS)}, or some of them as cls+mean"
        raise PydanticCustomError("pooling", expected)
    return name


Text = Annotated[str, Field(min_length=1), AfterValidator(_check_text)]
Pair = Annotated[tuple[Text, Text], Field(strict=False)]
Items = Annotated[list[T], Field(min_length=1, fail_fast=True)]
"""A list of one or more, given up at the first that is wrong."""
Texts = Text | Items[Text]
TextsOrPairs = Text | Items[Text | Pair]
Layer = Annotated[int, Field(ge=-1000, le=1000)]
Layers = Layer | Annotated[list[Layer], Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Prompt = Annotated[str, Field(max_length=MAX_PROMPT), AfterValidator(_check_prompt)]
Start = Annotated[str, AfterValidator(_check_prompt)]
"""What a text goes on from: also nothing."""
Count = Annotated[int, Field(ge=1, le=1 << 20)]
NoPenalty = Annotated[float, Field(ge=0, le=0)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]
Num = Annotated[int, Field(ge=1, le=MAX_NUM)]
PoolingName = Annotated[
    str, Field(examples=[*POOLINGS, "cls+mean"]), AfterValidator(_check_pooling)
]


def _example(**keys: Any) -> ConfigDict:
    """What a schema shows as an example."""
    return ConfigDict(json_schema_extra={"example": keys})


def listed(value: object) -> list[Any]:
    """One or more, as a list."""
    return value if isinstance(value, list) else [value]


class Schema(BaseModel):
    """A JSON object; a key that is null is one that is not given. Hugging Face's clients say
    `inputs` for `input`, and put other keys into `parameters`."""

    model_config = ConfigDict(strict=True, extra="forbid")

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


class ModelRequest(Schema):
    """What every route of a model takes."""

    model: Name | None = Field(None, description="Name of the model; unset: the first.")
    truncate: bool = Field(
        False, description="Truncate what is too long and say so; else it is an error."
    )


class TaskRequest(ModelRequest):
    """What routes of task heads take."""

    task: Name | None = Field(
        None, description="Name of the task; may be left out where there is one."
    )


class LayersRequest(ModelRequest):
    """Which vectors."""

    layers: Layers | None = Field(
        None, description="0 the embeddings, 1 and up the layers, negative from the top."
    )
    combine: Combine | None = Field(None, description="How several layers are combined.")
    normalize: bool | None = Field(None, description="Scale every vector to length 1.")


class PoolingRequest(LayersRequest):
    """Which vectors of texts."""

    pooling: PoolingName | None = Field(
        None, description="How the tokens of a text become one vector."
    )


class PromptRequest(Schema):
    """What is put before texts."""

    prompt: Prompt | None = Field(
        None, description='Text before every text, "" for none; unset: the default.'
    )
    prompt_name: Name | None = Field(
        None, description="The same by its name in the model's folder."
    )


class EmbedRequest(PoolingRequest, PromptRequest):
    """Of /embed."""

    model_config = _example(input=["a text", "another"], layers=[-2], pooling="mean")
    input: TextsOrPairs = Field(description="A text, or texts and pairs; also as `inputs`.")
    windows: bool = Field(False, description="Read long texts in windows.")
    dtype: Literal["float32", "float16", "int8", "binary"] = Field(
        "float32", description="Of the numbers."
    )
    encoding: Literal["float", "base64"] = Field("float", description="Of the reply.")


class EncodeRequest(ModelRequest):
    """Of /encode, bert-as-service's."""

    model_config = _example(id=1, texts=["a text"])
    texts: TextsOrPairs = Field(description="Texts.")
    id: (
        Annotated[int, Field(ge=-(2**53), le=2**53)] | Annotated[str, Field(max_length=200)] | None
    ) = Field(None, description="Returned with the vectors.")
    is_tokenized: bool = Field(False, description="Only false: splitting words is the model's own.")


class TokensRequest(LayersRequest, PromptRequest):
    """Of /tokens."""

    model_config = _example(input="a text")
    input: Texts = Field(description="A text or texts; also as `inputs`.")
    windows: bool = Field(False, description="Read long texts in windows.")


class TokenizeRequest(ModelRequest):
    """Of /tokenize."""

    model_config = _example(input="a text")
    input: TextsOrPairs = Field(description="A text, or texts and pairs; also as `inputs`.")


class Sentences(Schema):
    """A text, and those to compare with it."""

    source_sentence: Text
    sentences: Texts


class SimilarityRequest(PoolingRequest, PromptRequest):
    """Of /similarity."""

    model_config = _example(input=["a text", "another"])
    input: Texts | Sentences = Field(
        description="Texts to compare each with each, or an object: one with `sentences`."
    )


class AttentionRequest(ModelRequest):
    """Of /attention."""

    model_config = _example(input="a text")
    input: Text | Pair = Field(description="A text or a pair; also as `inputs`.")
    layers: Layers | None = Field(None, description="From 1; unset: all.")


class RerankRequest(TaskRequest):
    """Of /rerank."""

    model_config = _example(query="a text", documents=["a", "b"])
    query: Text = Field(description="What is looked for.")
    documents: Texts = Field(description="What is sorted.")
    top_k: Count | None = Field(None, description="How many, at most; unset: all.")


class FillRequest(ModelRequest):
    """Of /fill-mask."""

    model_config = _example(input="a [MASK]")
    input: Texts = Field(description="Texts with [MASK]; also as `inputs`.")
    top_k: Annotated[int, Field(ge=1, le=100)] = Field(5, description="How many, at most.")


class NextSentenceRequest(ModelRequest):
    """Of /next-sentence."""

    model_config = _example(input=["a text", "b"])
    input: Pair | Items[Pair] = Field(description="Two texts, or pairs; also as `inputs`.")


class ClassifyRequest(TaskRequest):
    """Of /classify."""

    model_config = _example(input="a text")
    input: TextsOrPairs = Field(
        description="Texts or pairs, as the head was trained on; also as `inputs`."
    )
    top_k: Count | None = Field(None, description="How many, at most; unset: all.")


class TagRequest(TaskRequest):
    """Of /tag."""

    model_config = _example(input="a text")
    input: Text | Items[Text | Items[Text]] = Field(
        description="Texts, or lists of words; also as `inputs`."
    )


class Question(Schema):
    """A question and the passage with its answer."""

    question: Text
    context: Text


class AnswerRequest(TaskRequest):
    """Of /answer."""

    model_config = _example(input={"question": "what ?", "context": "a text"})
    input: Question | Items[Question] = Field(description="`question` and `context`, or several.")
    top_k: Annotated[int, Field(ge=1, le=20)] = Field(1, description="Runners-up.")


class Choices(Schema):
    """A text and ways to go on; `text2` begins every one."""

    text: Text
    choices: Texts
    text2: Text | None = None


class ChooseRequest(TaskRequest):
    """Of /choose."""

    model_config = _example(input={"text": "a text", "choices": ["b", "c"]})
    input: Choices | Items[Choices] = Field(description="`text` and `choices`, or several.")


class OpenAIRequest(Schema, extra="ignore"):
    """OpenAI's protocol may have more keys, which are ignored."""

    model: Name | None = Field(None, description="Name of the model; unset: the first.")


class EmbeddingsRequest(OpenAIRequest):
    """Of /v1/embeddings."""

    model_config = _example(input=["a text"])
    input: Texts = Field(
        description="A text, or texts; not token ids, as OpenAI's stand for other words here."
    )
    encoding_format: Literal["float", "base64"] = Field("float", description="Of the vectors.")
    dimensions: Count | None = Field(
        None, description="Keep so many numbers of a vector, scaled to length 1."
    )


class ContinueRequest(Schema):
    """How prompts are continued."""

    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="Sample from the fewest tokens that have this together."
    )
    top_k: Count | None = Field(None, description="Sample from so many tokens; unset: all.")
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="Above 1, tokens that were there become less probable."
    )
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] = Field(
        [], description="A text ends before the first of these."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Of sampling; unset: another each time."
    )
    stream: bool = Field(False, description="Send text as it is made, as server-sent events.")


class GenerateRequest(ModelRequest, ContinueRequest):
    """Of /generate; the names are those of `bertwright generate`."""

    model_config = _example(input="Once upon", max_new_tokens=8)
    input: Start | Items[Start] = Field(
        description="A prompt, or prompts, which may be empty; also as `inputs`."
    )
    max_new_tokens: Count = Field(128, description="Tokens of a text, at most.")
    sample: bool = Field(False, description="Draw each token; else take the most probable one.")
    temperature: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="Of sampling: logits are divided by it."
    )
    num: Num = Field(1, description="Samples of each prompt.")


class TranslateRequest(ModelRequest):
    """Of /translate; the names are those of `bertwright translate`."""

    model_config = _example(input="a text")
    input: Texts = Field(description="A sentence, or sentences; also as `inputs`.")
    beam: Num = Field(4, description="Beams of beam search; 1: greedy.")
    length_penalty: Annotated[float, Field(ge=-100, le=100)] = Field(
        0.6, description="Log-probabilities are divided by ((5 + length) / 6) to this power."
    )
    max_length: Count | None = Field(
        None, description="Tokens of a translation, at most; unset: 50 more than its source has."
    )
    stream: bool = Field(False, description="Send each translation when it is done, as an event.")


class CompletionsRequest(ContinueRequest, OpenAIRequest):
    """Of /v1/completions; what would change the text and is not supported is refused."""

    model_config = _example(prompt="Once upon", max_tokens=8)
    prompt: Start | Items[Start] = Field(description="A text, or texts; not token ids.")
    max_tokens: Count = Field(16, description="Tokens of a text, at most.")
    temperature: Annotated[float, Field(ge=0, le=100)] = Field(
        1.0, description="0: take the most probable token."
    )
    n: Num = Field(1, description="Texts of each prompt.")
    suffix: Literal[""] = Field("", description="Not supported, as all keys below.")
    frequency_penalty: NoPenalty = 0.0
    presence_penalty: NoPenalty = 0.0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] = {}
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    logprobs: None = None


def read_body(schema: type[B], body: bytes) -> B:
    """A request's body.

    Raises:
        HttpError: 400: no JSON object, an unknown, missing or repeated key, another type of value.
    """
    try:
        given = orjson.loads(body)
    except (orjson.JSONDecodeError, RecursionError) as error:
        expected = "UTF-8, not compressed, no lone surrogates"
        raise invalid_request(f"the body is not valid JSON ({expected})") from error
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        raise _invalid(schema, error) from None


def _invalid(schema: type[BaseModel], error: ValidationError) -> HttpError:
    """The error that lies deepest, as that is of the type that was meant; of several, one that is
    not about the type. Where no type of several was meant, what the key takes is said too."""
    found = error.errors(include_url=False, include_input=False)

    def weight(each: Any) -> tuple[bool, int, bool]:
        kind = each["type"]
        return kind == "extra_forbidden", len(each["loc"]), not kind.endswith("_type")

    worst = max(found, key=weight)
    name, *path = worst["loc"] or ("",)
    if worst["type"] == "extra_forbidden" and not path:
        known = ", ".join(schema.model_fields)
        return invalid_request(f"an unknown key; known keys are: {known}")
    if worst["type"] == "missing" and not path:
        return invalid_request(f"{name} is missing: {schema.model_fields[str(name)].description}")
    where = "".join(f", item {part}" for part in path if isinstance(part, int))
    message = "the body must be a JSON object" if worst["type"] == "model_type" else worst["msg"]
    if worst["type"] == "missing":  # in an object
        message = f"{path[-1]} is missing"
    if len(found) > 1 and not where and worst["type"].endswith("_type"):
        field = schema.model_fields.get(str(name))
        message += f" ({field.description})" if field and field.description else ""
    return invalid_request(f"{name}{where}: {message}" if name else message)
