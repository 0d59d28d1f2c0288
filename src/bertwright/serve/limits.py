"""The limits of a request and of its reply (docs/howto/serving.md, "Settings"); a body's are in
`serve/http/bodies.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import HttpError

LISTS = ("input", "prompt", "documents", "sentences", "texts", "choices")
MAX_NUMBERS, MAX_CHARACTERS = 1 << 23, 1 << 24
"""The most numbers that a reply, or the vectors it is made from, may have: 2,048 texts by four
layers of 1,024, about 90 MB as JSON; and the most characters of a reply that repeats texts or
labels."""


def check_request(body: BaseModel, config: ServeConfig) -> None:
    """Raise `HttpError` if a body has too many items or too many characters."""
    _check_items(body, config)
    check_characters(sum(map(len, texts_in(body))), config)


def _check_items(body: BaseModel, config: ServeConfig) -> None:
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
