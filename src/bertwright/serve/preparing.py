"""Checking a request against the server's limits, and tokenizing its texts for the device.

All of this runs in a thread beside the event loop (`serve/side_threads.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.encode import Text, Tokenized, tokenize
from bertwright.serve.engine.engine import Engine, Output, RequestItem
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.schemas.replies import About, Truncated
from bertwright.serve.schemas.requests import LayersRequest, NamedModel, PoolingRequest, listed
from bertwright.text.tokenizer.apart import TooSlow

B = TypeVar("B", bound=NamedModel)
"""The body of a route."""
R = TypeVar("R")
"""The reply of a route."""
LISTS = ("input", "prompt", "documents", "sentences", "texts", "choices")
MAX_NUMBERS, MAX_CHARACTERS = 1 << 23, 1 << 24
"""The most numbers that a reply, or the vectors it is made from, may have: 2,048 texts by four
layers of 1,024, about 90 MB as JSON; and the most characters of a reply that repeats texts or
labels."""
Json = dict[str, Any]
Finish = Callable[[list[Any], About], R]
"""Makes the reply from the results of the items, in order, and from what every reply says."""


@dataclass
class Prepared(Generic[R]):
    """The items of a request for the device, and how their results become the reply."""

    engine: Engine
    items: list[RequestItem]
    finish: Finish[R]
    """It must not refer to its `Prepared`: that is a reference cycle, and collecting the cycles of
    thousands of requests stops all others for 0.05 seconds."""
    layers: Sequence[int] = ()
    pooling: str | None = None
    normalized: bool = False
    truncated: list[Truncated] = field(default_factory=list)
    headers: dict[str, str] | None = None
    """More headers of the reply."""
    numbers: int = 0
    """Numbers of the reply, at most; see `MAX_NUMBERS`."""
    characters: int = 0
    """Characters of the reply, at most, where they may be many more than those of the request."""

    @property
    def tokens(self) -> int:
        """The number of tokens that the model reads."""
        return sum(item.tokens for item in self.items)

    @property
    def unknown_words(self) -> int | None:
        """The number of words that the model does not know.

        It is None if the model's tokens are not words, or if the model reads no text.
        """
        if not self.items:
            return None
        return self.engine.unknown_words(ids for item in self.items for ids in item.ids)

    @property
    def size(self) -> int:
        """The approximate bytes of the reply and of its arrays: 4 a number, and 12 as JSON."""
        return 16 * self.numbers + self.characters

    @property
    def about(self) -> About:
        """What every reply says of how it was made."""
        about: About = {
            "model": self.engine.name,
            "sha256": self.engine.sha256,
            "layers": list(self.layers),
            "pooling": self.pooling,
            "normalized": self.normalized,
            "tokens_used": self.tokens,
            "truncated": self.truncated,
        }
        if (unknown := self.unknown_words) is not None:
            about["unknown_words"] = unknown
        return about

    def reply(self, results: list[Any]) -> R:
        """Return the reply that the results of the items make."""
        return self.finish(results, self.about)


Prepare = Callable[[Engine, B, ServeConfig], Prepared[R]]
"""Checks and tokenizes the body of a route for a model."""


def prepare(
    route: Prepare[B, R], engines: Mapping[str, Engine], body: B, config: ServeConfig
) -> Prepared[R]:
    """Check a request's limits and tokenize its texts.

    Raises:
        HttpError: the request is refused.
    """
    engine = _engine(engines, body.model)
    _check_items(body, config)
    check_characters(sum(map(len, texts_in(body))), config)
    try:
        prepared = route(engine, body, config)
    except NoHead as error:
        others = [each.name for each in engines.values() if each.head_kinds & {*error.wanted}]
        more = f"; request a model that has one: {', '.join(others)}" if others else ""
        raise NoHead(error.message + more, error.wanted) from error
    except ConfigError as error:
        raise invalid_request(str(error)) from error
    except TooSlow as error:
        raise invalid_request(str(error), "too_slow") from error
    except DataError as error:  # its message may hold the text
        raise invalid_request("this model cannot read these texts", "not_readable") from error
    check_tokens(prepared.tokens, config)
    check_reply(prepared.numbers, prepared.characters)
    return prepared


def _engine(engines: Mapping[str, Engine], name: str | None) -> Engine:
    """Return the model of a request: the one it names, or the first."""
    if name is None:
        return next(iter(engines.values()))
    if name not in engines:
        known = ", ".join(engines)
        raise HttpError(404, "model_not_found", f"no such model; there are: {known}")
    return engines[name]


def _check_items(body: BaseModel, config: ServeConfig) -> None:
    """Raise `HttpError` if a list of the body has too many items."""
    for key, given in vars(body).items():
        if isinstance(given, BaseModel):
            _check_items(given, config)
        if key in LISTS and isinstance(given, list):
            _check_count(len(given), config.max_items, "items", f"{key} has ")


def _check_count(count: int, most: int, what: str, where: str = "") -> None:
    if count > most:
        reason = f"{where}{count} {what}; at most {most} are allowed in one request"
        raise HttpError(413, f"too_many_{what}", reason)


def check_characters(count: int, config: ServeConfig) -> None:
    """Raise `HttpError` if a request has too many characters."""
    _check_count(count, config.max_characters, "characters")


def check_texts(engine: Engine, texts: Sequence[str], before: int, config: ServeConfig) -> None:
    """Raise `HttpError` if texts, with the `before` tokens of earlier ones, have too many tokens.

    A text must be given as often as the model reads it. Only the ids of its tokens are needed for
    this check, so it comes before anything larger is made.
    """
    if before + sum(map(len, texts)) > config.max_tokens:  # a token has at least one character
        ids = engine.tokenizer.encode_bare_ids(texts)
        check_tokens(before + sum(map(len, ids)), config)


def check_tokens(count: int, config: ServeConfig) -> None:
    """Raise `HttpError` if a request has too many tokens."""
    _check_count(count, config.max_tokens, "tokens")


def check_reply(numbers: int, characters: int) -> None:
    """Raise `HttpError` if the reply would be too large; a short request may have a large reply."""
    _check_count(numbers, MAX_NUMBERS, "numbers", "the reply would have ")
    _check_count(characters, MAX_CHARACTERS, "characters", "the reply would have ")


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (BaseModel, dict)):
        keys = value if isinstance(value, dict) else vars(value)
        yield from texts_in([*keys.values()])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


def tokenize_texts(
    engine: Engine, texts: Sequence[Text], truncate: bool, windows: bool = False, longest: int = 0
) -> tuple[Tokenized, list[Truncated]]:
    """Return texts and pairs as sequences of at most `longest` tokens, and what was truncated.

    If `longest` is 0, a sequence has at most as many tokens as the model reads at once.

    Raises:
        HttpError: a text is too long, or a pair is given to a model that reads none.
    """
    longest = min(longest or engine.longest, engine.longest)
    room = longest - engine.tokenizer.framing.special_tokens(True)
    paired = engine.spec.reads_pairs and room > 1
    if not paired and not all(isinstance(text, str) for text in texts):
        raise invalid_request("this model reads no pairs", "no_pairs")
    found, truncated = tokenize(engine.tokenizer, texts, longest, True, windows=windows), []
    for number, excess in found.left_out.items():
        count = f"{excess + longest} tokens; this model reads {longest} at once"
        truncated.append(truncation(truncate, number, excess, f"input {number} has {count}"))
    return found, truncated


def truncation(allowed: bool, number: int, tokens: int, reason: str) -> Truncated:
    """Return the note that an input loses tokens; `HttpError` if the request does not allow it."""
    if not allowed:
        raise invalid_request(f'{reason}: shorten it, or request "truncate": true', "too_long")
    return Truncated(number, tokens)


def vector_config(engine: Engine, body: LayersRequest) -> VectorConfig:
    """Return which vectors a request asks for, or raise `ConfigError` or `HttpError`."""
    engine.spec.require_vectors()
    prompt, name = body.prompt, body.prompt_name
    if name is not None and (prompt is not None or name not in engine.prompts):
        known = ", ".join(engine.prompts) or "none"
        reason = f"prompt_name is one of the model's ({known}), without prompt"
        raise invalid_request(reason, "no_prompt")
    others: Json = {
        "pooling": body.pooling if isinstance(body, PoolingRequest) else None,
        "normalize": body.normalize,
        "prompt": engine.prompts[name] if name else prompt,
    }
    layers = None if body.layers is None else tuple(listed(body.layers))
    vectors = engine.default.over(layers=layers, **others)
    if vectors.numbers(engine.top) == engine.default.numbers(engine.top):
        # these are the default's layers, perhaps by other numbers: its dense layers stay
        return engine.default.over(**others)
    return vectors


def request_vectors(
    engine: Engine,
    vectors: VectorConfig,
    items: list[RequestItem],
    finish: Finish[R],
    truncated: list[Truncated],
    count: int,
) -> Prepared[R]:
    """Return a request whose reply holds `count` vectors, and says how they are made.

    Raises:
        ConfigError: the model's export does not compute a layer.
    """
    engine.require_layers(vectors.numbers(engine.top))
    return Prepared(
        engine,
        items,
        finish,
        vectors.numbers(engine.top),
        vectors.pooling,
        vectors.normalize,
        truncated,
        numbers=count * vectors.width(engine.spec.widths),
    )


def items_of(output: Output, texts: Tokenized) -> list[RequestItem]:
    """Return an item for each text, whose data are the starts of its windows."""
    items = []
    for _, group in groupby(range(len(texts.ids)), texts.owners.__getitem__):
        rows = slice((numbers := list(group))[0], numbers[-1] + 1)
        segments = None if texts.segments is None else texts.segments[rows]
        items.append(RequestItem(output, texts.ids[rows], segments, texts.starts[rows]))
    return items
