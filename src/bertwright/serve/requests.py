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
from bertwright.inference.embed import normalized
from bertwright.inference.encode import Text, Tokenized, tokenize
from bertwright.serve.engine import Engine, Output, RequestItem
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.schemas import EmbeddingsRequest, ModelRequest, listed

LISTS = ("input", "prompt", "documents", "sentences", "texts", "choices")
MAX_NUMBERS = 1 << 23
"""Numbers of a reply, or of the vectors it is made from: 2,048 texts by four layers of 1,024; about
90 MB as JSON."""
MAX_CHARACTERS = 1 << 24
"""Characters of a reply that holds a text, or labels, many times."""
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
    """Of the reply, where there may be many more than texts came; see `MAX_NUMBERS`."""
    characters: int = 0
    """Likewise; see `MAX_CHARACTERS`."""

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
    """Check a request's bounds and tokenize its texts.

    Raises:
        HttpError: unknown model, too much, too long, too large a reply, or no such head, layer or
            task.
    """
    if body.model is not None and body.model not in engines:
        known = ", ".join(engines)
        raise HttpError(404, "model_not_found", f"no such model; there are: {known}")
    engine = next(iter(engines.values())) if body.model is None else engines[body.model]
    _check_items(body, config)
    check_characters(sum(map(len, texts_in(body))), config)
    try:
        prepared = route(engine, body, config)
    except NoHead as error:
        heads = {each.name: each.head_kinds & {*error.wanted} for each in engines.values()}
        if others := [name for name, kinds in heads.items() if kinds]:
            more = f"; request a model that has one: {', '.join(others)}"
            raise NoHead(error.message + more, error.wanted) from error
        raise
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
    """Raise `HttpError` if texts have too many tokens, before more is made of them than bare ids.

    Args:
        engine: the model.
        texts: as often as the model reads each.
        before: tokens of the request that are counted already.
        config: the bounds.
    """
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
    elif isinstance(value, BaseModel):
        yield from texts_in(list(vars(value).values()))
    elif isinstance(value, dict):
        yield from texts_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


def tokenize_texts(
    engine: Engine,
    texts: Sequence[Text],
    truncate: bool,
    windows: bool = False,
    longest: int = 0,
) -> tuple[Tokenized, list[Truncation]]:
    """Texts and pairs as sequences, and what was truncated.

    Args:
        engine: the model.
        texts: texts and pairs.
        truncate: truncate what is too long, and record it.
        windows: read long texts in windows instead.
        longest: tokens of a sequence; unset: as many as the model reads at once.

    Raises:
        HttpError: something is too long, or a pair is given to a model of one segment.
    """
    longest = min(longest or engine.longest, engine.longest)
    room = longest - engine.tokenizer.framing.special_tokens(True)
    paired = engine.spec.segments > 1 and room > 1
    if not paired and not all(isinstance(text, str) for text in texts):
        raise invalid_request("this model reads no pairs", "no_pairs")
    found = tokenize(engine.tokenizer, texts, longest, True, windows=windows)
    for number, excess in found.left_out.items():
        count = f"{excess + longest} tokens; this model reads {longest} at once"
        allow_truncation(truncate, f"input {number} has {count}")
    return found, [{"input": n, "tokens_cut": count} for n, count in found.left_out.items()]


def allow_truncation(allowed: bool, reason: str) -> None:
    """Raise `HttpError` if an input would lose tokens, and the request does not allow it."""
    if not allowed:
        raise invalid_request(f'{reason}: shorten it, or request "truncate": true', "too_long")


def vector_config(engine: Engine, body: BaseModel) -> VectorConfig:
    """Which vectors a request means.

    Raises:
        ConfigError: a layer that the model has not, or it has no vectors.
        HttpError: there is no such prompt.
    """
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
