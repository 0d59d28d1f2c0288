"""A request before the device sees it: checked against the bounds and tokenized."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import orjson
from pydantic import BaseModel

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.encode import Text, Tokenized, tokenize
from bertwright.inference.vectors.embed import normalized
from bertwright.serve.engine import Engine, Output, RequestItem
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.schemas import EmbeddingsRequest, ModelRequest, listed

LISTS = ("input", "prompt", "documents", "sentences", "texts", "choices")
MAX_NUMBERS, MAX_CHARACTERS = 1 << 23, 1 << 24
"""Numbers of a reply, or of the vectors it is made from: 2,048 texts by four layers of 1,024; about
90 MB as JSON. Characters of one that holds a text, or labels, many times."""
Json = dict[str, Any]
Truncation = dict[str, int]
"""`input`, the number of a text from 0, and `tokens_cut`."""
Finish = Callable[[list[Any]], Json]
"""Results of the items, in order -> the body of the reply."""


@dataclass
class Prepared:
    """Items for the device, and how their results become a reply."""

    engine: Engine
    items: list[RequestItem]
    finish: Finish
    """It must not refer to its request: that is a cycle, and freeing those of thousands of requests
    stops all others for 0.05 s."""
    layers: Sequence[int] = ()
    pooling: str | None = None
    normalized: bool = False
    truncated: list[Truncation] = field(default_factory=list)
    headers: dict[str, str] | None = None
    """Where `about` goes in headers, as another's protocol has no keys for it."""
    numbers: int = 0
    characters: int = 0
    """Of the reply, where there may be many more than came; see `MAX_NUMBERS`."""

    @property
    def tokens(self) -> int:
        """Tokens that the model reads."""
        return sum(item.tokens for item in self.items)

    @property
    def size(self) -> int:
        """Bytes of the reply and of what it is made from, about: a number has 4, as JSON 12."""
        return 16 * self.numbers + self.characters

    @property
    def about(self) -> Json:
        """What every reply says of how it was made."""
        return {
            "model": self.engine.name,
            "sha256": self.engine.sha256,
            "layers": list(self.layers),
            "pooling": self.pooling,
            "normalized": self.normalized,
            "tokens_used": self.tokens,
            "truncated": self.truncated,
        }

    def reply(self, results: list[Any]) -> tuple[bytes, dict[str, str]]:
        """The body and more headers."""
        body = self.finish(results)
        if self.headers is None:
            return dump({**self.about, **body}), {}
        return dump(body), self.headers


Prepare = Callable[[Engine, Any, ServeConfig], Prepared]


def dump(value: Any) -> bytes:
    """JSON; arrays of numbers as they are."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def prepare(
    route: Prepare,
    engines: Mapping[str, Engine],
    body: ModelRequest | EmbeddingsRequest,
    config: ServeConfig,
) -> Prepared:
    """Check a request's bounds and tokenize its texts, or raise `HttpError`."""
    if body.model is not None and body.model not in engines:
        known = ", ".join(engines)
        raise HttpError(404, "model_not_found", f"no such model; there are: {known}")
    engine = next(iter(engines.values())) if body.model is None else engines[body.model]
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
    except DataError as error:  # its message may hold the text
        raise invalid_request("this model cannot read these texts", "not_readable") from error
    check_tokens(prepared.tokens, config)
    check_reply(prepared.numbers, prepared.characters)
    return prepared


def _check_items(body: BaseModel, config: ServeConfig) -> None:
    """Raise `HttpError` if a list has too many."""
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
    """Raise `HttpError` if they are too many."""
    _check_count(count, config.max_characters, "characters")


def check_texts(engine: Engine, texts: Sequence[str], before: int, config: ServeConfig) -> None:
    """Raise `HttpError` if texts, each as often as the model reads it, have too many tokens with
    those before them, and before more is made of them than bare ids."""
    if before + sum(map(len, texts)) > config.max_tokens:  # a token has a character
        ids = engine.tokenizer.encode_bare_ids(texts)
        check_tokens(before + sum(map(len, ids)), config)


def check_tokens(count: int, config: ServeConfig) -> None:
    """Raise `HttpError` if they are too many."""
    _check_count(count, config.max_tokens, "tokens")


def check_reply(numbers: int, characters: int) -> None:
    """Raise `HttpError` if a reply would hold too much: a short request may have a long one."""
    _check_count(numbers, MAX_NUMBERS, "numbers", "the reply would have ")
    _check_count(characters, MAX_CHARACTERS, "characters", "the reply would have ")


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a value."""
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
) -> tuple[Tokenized, list[Truncation]]:
    """Texts and pairs as sequences of at most `longest` tokens, or as many as the model reads at
    once; and what was truncated.

    Raises:
        HttpError: something is too long, or a pair is given to a model of one segment.
    """
    longest = min(longest or engine.longest, engine.longest)
    room = longest - engine.tokenizer.framing.special_tokens(True)
    paired = engine.spec.segments > 1 and room > 1
    if not paired and not all(isinstance(text, str) for text in texts):
        raise invalid_request("this model reads no pairs", "no_pairs")
    found, truncated = tokenize(engine.tokenizer, texts, longest, True, windows=windows), []
    for number, excess in found.left_out.items():
        count = f"{excess + longest} tokens; this model reads {longest} at once"
        truncated.append(truncation(truncate, number, excess, f"input {number} has {count}"))
    return found, truncated


def truncation(allowed: bool, number: int, tokens: int, reason: str) -> Truncation:
    """That an input loses tokens; `HttpError` if the request does not allow it."""
    if not allowed:
        raise invalid_request(f'{reason}: shorten it, or request "truncate": true', "too_long")
    return {"input": number, "tokens_cut": tokens}


def vector_config(engine: Engine, body: BaseModel) -> VectorConfig:
    """Which vectors a request means, or `ConfigError` or `HttpError`."""
    engine.spec.require_vectors()
    given = vars(body)  # not all schemas have all keys; pydantic's `getattr` takes 4 µs for no
    layers = None if given.get("layers") is None else tuple(listed(given["layers"]))
    chosen: Json = {name: given.get(name) for name in ("combine", "pooling", "normalize")}
    prompt, name = given.get("prompt"), given.get("prompt_name")
    if name is not None and (prompt is not None or name not in engine.prompts):
        known = ", ".join(engine.prompts) or "none"
        reason = f"prompt_name is one of the model's ({known}), without prompt"
        raise invalid_request(reason, "no_prompt")
    chosen["prompt"] = engine.prompts[name] if name else prompt
    found = engine.default.over(layers=layers, **chosen)
    if found.numbers(engine.top) == engine.default.numbers(engine.top):
        # the default's layers, perhaps by other numbers: its dense layers stay
        found = engine.default.over(**chosen)
    return found


def request_vectors(
    engine: Engine,
    vectors: VectorConfig,
    items: list[RequestItem],
    finish: Finish,
    truncated: list[Truncation],
    count: int,
) -> Prepared:
    """A request whose reply holds so many vectors, and says how they are made."""
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
    """An item a text; its data are the starts of its windows."""
    items = []
    for _, group in groupby(range(len(texts.ids)), texts.owners.__getitem__):
        rows = slice((numbers := list(group))[0], numbers[-1] + 1)
        segments = None if texts.segments is None else texts.segments[rows]
        items.append(RequestItem(output, texts.ids[rows], segments, texts.starts[rows]))
    return items


def cosines(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`[n, W]` and `[m, W]` -> `[n, m]`."""
    found: np.ndarray[Any, Any] = np.clip(normalized(a) @ normalized(b).T, -1, 1)
    return found
