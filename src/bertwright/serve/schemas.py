"""What a request's body must look like: one description reads it and tells OpenAPI of it.

A reason names the key and what was expected, never what came: a text has no place in a reply that
says no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import orjson

from bertwright.config.vectors import Combine, Pooling, poolings_of
from bertwright.errors import ConfigError
from bertwright.serve.errors import bad

LONGEST_PROMPT = 1024
"""Characters: it is read with every text of a request."""
Args = dict[str, Any]
Schema = dict[str, Any]


class Wrong(ValueError):
    """A value that a key does not take; the message says what was expected."""


@dataclass(frozen=True)
class Kind:
    """A kind of value."""

    read: Callable[[Any], Any]
    """Gives the value, or raises `Wrong`."""
    schema: Schema


@dataclass(frozen=True)
class Key:
    """A key of a body."""

    kind: Kind
    help: str
    required: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """A JSON object."""

    keys: Mapping[str, Key]
    ignores: bool = False
    """Other keys are let pass, as another protocol may have more of them."""
    example: Args = field(default_factory=dict)

    def read(self, body: bytes) -> Args:
        """The values by key, defaults filled in.

        Raises:
            Refusal: no JSON object, an unknown, missing or repeated key, a value of another kind.
        """
        try:
            given = orjson.loads(body)
        except (orjson.JSONDecodeError, RecursionError) as error:
            expected = "UTF-8, not compressed, no lone surrogates"
            raise bad(f"the body is no JSON that can be read ({expected})") from error
        if not isinstance(given, dict):
            raise bad("the body must be a JSON object")
        names = {alias: name for name, key in self.keys.items() for alias in (name, *key.aliases)}
        found: Args = {name: key.default for name, key in self.keys.items()}
        seen = set()
        for each, value in self._pairs(given):
            if each not in names:
                if self.ignores:
                    continue
                raise bad(f"an unknown key; known are: {', '.join(self.keys)}")
            name = names[each]
            if value is None:
                continue
            if name in seen:
                raise bad(f"{name} is given twice")
            seen.add(name)
            try:
                found[name] = self.keys[name].kind.read(value)
            except Wrong as error:
                raise bad(f"{name} must be {error}") from error
        for name, key in self.keys.items():
            if key.required and found[name] is None:
                raise bad(f"{name} is missing: {key.help}")
        return found

    def _pairs(self, given: Args) -> Iterator[tuple[str, Any]]:
        """Keys and values; what Hugging Face's clients put into `parameters`, or into an object
        `inputs`, as if it stood beside them."""
        for name, value in given.items():
            if self.ignores or not (
                name == "parameters" or (name == "inputs" and isinstance(value, dict))
            ):
                yield name, value
            elif isinstance(value, dict):
                yield from value.items()
            elif value is not None:
                raise bad("parameters must be an object with keys of this route")

    @property
    def schema(self) -> Schema:
        """For OpenAPI."""
        described: Schema = {
            "type": "object",
            "properties": {
                name: {**key.kind.schema, "description": key.help}
                for name, key in self.keys.items()
            },
            "additionalProperties": self.ignores,
        }
        required = [name for name, key in self.keys.items() if key.required]
        if required:
            described["required"] = required
        if self.example:
            described["example"] = self.example
        return described


def text_of(value: Any) -> str:
    """A text that is not blank."""
    if not isinstance(value, str):
        raise Wrong("text")
    if "\0" in value:
        raise Wrong("text without NUL characters")
    if not value.strip():
        raise Wrong("text that is not empty")
    return value


def _one_or_list(read: Callable[[Any], Any], expected: str) -> Callable[[Any], list[Any]]:
    def read_all(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else [value]
        if not items:
            raise Wrong(f"{expected}; the list is empty")
        found = []
        for number, item in enumerate(items):
            try:
                found.append(read(item))
            except Wrong as error:
                raise Wrong(f"{expected}; item {number} must be {error}") from error
        return found

    return read_all


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise Wrong("two texts")
    return text_of(value[0]), text_of(value[1])


def _text_or_pair(value: Any) -> str | tuple[str, str]:
    return _pair(value) if isinstance(value, list) else text_of(value)


def _pairs(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [_pair(value)]
    return _one_or_list(_pair, "two texts, or a list of two texts each")(value)


def _words(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return _one_or_list(text_of, "words")(value)
    return text_of(value)


def _number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong(f"a whole number from {least} to {most}")
        return value

    return read


def _layers(value: Any) -> tuple[int, ...]:
    items = value if isinstance(value, list) else [value]
    if not 0 < len(items) <= 64:
        raise Wrong("a list of 1 to 64 layer numbers")
    return tuple(map(_number(-1000, 1000), items))


def _ids(value: Any) -> list[int]:
    if not isinstance(value, list) or not value:
        raise Wrong("a list of token ids")
    return list(map(_number(0, 2**31), value))


def _number_or_text(value: Any) -> int | str:
    if isinstance(value, str) and len(value) <= 200:
        return value
    try:
        return _number(-(2**53), 2**53)(value)
    except Wrong as error:
        raise Wrong(f"{error}, or a text of up to 200 characters") from error


def _openai_input(value: Any) -> list[str | list[int]]:
    """A text, a list of texts, a list of ids, or a list of such lists."""
    if isinstance(value, list) and value and not isinstance(value[0], (str, list)):
        return [_ids(value)]
    if isinstance(value, list) and value and isinstance(value[0], list):
        return _one_or_list(_ids, "lists of token ids")(value)
    return _one_or_list(text_of, "a text, a list of texts, or token ids")(value)


def _prompt(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_PROMPT or "\0" in value:
        raise Wrong(f"text of up to {LONGEST_PROMPT} characters, without NUL characters")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise Wrong("a name")
    return value


def _pooling(value: Any) -> str:
    try:
        poolings_of(value)
    except ConfigError:
        value = "none"
    if value == "none":
        raise Wrong(f"one of {', '.join(POOLINGS)}, or some of them as cls+mean")
    assert isinstance(value, str)
    return value


def _false(value: Any) -> bool:
    if value is not False:
        raise Wrong("false")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("true or false")
    return value


def choice(*known: str) -> Kind:
    """One of a few words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Wrong(f"one of {', '.join(known)}")
        return value

    return Kind(read, {"type": "string", "enum": list(known)})


def number(least: int, most: int) -> Kind:
    """A whole number."""
    return Kind(_number(least, most), {"type": "integer", "minimum": least, "maximum": most})


def record(keys: Mapping[str, Kind], required: tuple[str, ...]) -> Kind:
    """An object with these keys."""

    def read(value: Any) -> Args:
        if not isinstance(value, dict) or not set(value) <= set(keys):
            raise Wrong(f"an object with the keys {', '.join(keys)}")
        missing = [name for name in required if value.get(name) is None]
        if missing:
            raise Wrong(f"an object with {', '.join(required)}")
        found = {}
        for name, kind in keys.items():
            if value.get(name) is None:
                continue
            try:
                found[name] = kind.read(value[name])
            except Wrong as error:
                raise Wrong(f"an object whose {name} is {error}") from error
        return found

    properties = {name: kind.schema for name, kind in keys.items()}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Kind(read, {**schema, "additionalProperties": False})


def several(kind: Kind, expected: str) -> Kind:
    """One, or a list of one or more."""
    items = {"type": "array", "items": kind.schema, "minItems": 1}
    return Kind(_one_or_list(kind.read, expected), {"anyOf": [kind.schema, items]})


TEXT_SCHEMA: Schema = {"type": "string", "minLength": 1}
PAIR_SCHEMA: Schema = {"type": "array", "items": TEXT_SCHEMA, "minItems": 2, "maxItems": 2}
TEXT = Kind(text_of, TEXT_SCHEMA)
TEXT_OR_PAIR = Kind(_text_or_pair, {"anyOf": [TEXT_SCHEMA, PAIR_SCHEMA]})
TEXTS = several(TEXT, "a text or a list of texts")
TEXTS_OR_PAIRS = several(TEXT_OR_PAIR, "a text, or a list of texts and pairs")
PAIRS = Kind(_pairs, {"anyOf": [PAIR_SCHEMA, {"type": "array", "items": PAIR_SCHEMA}]})
WORDS = Kind(
    _words, {"anyOf": [TEXT_SCHEMA, {"type": "array", "items": TEXT_SCHEMA, "minItems": 1}]}
)
TEXTS_OR_WORDS = several(WORDS, "a text, or a list of texts and lists of words")
LAYERS = Kind(
    _layers,
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
)
IDS_SCHEMA: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
OPENAI_INPUT = Kind(
    _openai_input,
    {"anyOf": [*TEXTS.schema["anyOf"], IDS_SCHEMA, {"type": "array", "items": IDS_SCHEMA}]},
)
PROMPT = Kind(_prompt, {"type": "string", "maxLength": LONGEST_PROMPT})
NAME = Kind(_name, {"type": "string", "minLength": 1, "maxLength": 200})
ID = Kind(_number_or_text, {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 200}]})
FLAG = Kind(_flag, {"type": "boolean"})
FALSE = Kind(_false, {"type": "boolean", "enum": [False]})
POOLINGS = [name for name in get_args(Pooling) if name != "none"]
POOLING = Kind(_pooling, {"type": "string", "examples": [*POOLINGS, "cls+mean"]})
COMBINE = choice(*get_args(Combine))

MODEL = {
    "model": Key(NAME, "Name of the model; unset: the first."),
    "truncate": Key(FLAG, "Cut what is too long and say so; else it is an error.", default=False),
}
