"""Convert configurations between frozen dataclasses, mappings and TOML, strictly in both
directions.

A configuration is a frozen dataclass whose fields are numbers, booleans, text, `Literal` choices,
tuples, mappings, `None` or other such dataclasses (sections). A key is the path to a field, such as
`optimizer.learning_rate`. TOML has no null, so None is written as the text "none", and "none" is
read as None wherever a field may be None; the command line does the same. If "none" is also a
choice of the field, a None is left out of the file, and "none" is read as the choice.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

Config = TypeVar("Config")


def to_dict(value: Any, none: str | None = None, finite: bool = False) -> Any:
    """Return a configuration as plain mappings, lists, numbers and text; the inverse of
    `from_dict`.

    None becomes `none`; with `finite`, infinity and NaN do too.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # an array or a number of NumPy, or a tensor
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): to_dict(item, none, finite) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_dict(item, none, finite) for item in value]
    if value is None or (finite and isinstance(value, float) and not math.isfinite(value)):
        return none
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def plain(value: Any) -> Any:
    """Return any value in the types of JSON; infinity and NaN become None."""
    return to_dict(value, finite=True)


@typing.overload
def from_dict(
    default: type[Config],
    mapping: Any,
    where: str = "",
    prefix: str = "",
    defaults: Mapping[str, Any] = ...,
) -> Config: ...
@typing.overload
def from_dict(
    default: Config,
    mapping: Any,
    where: str = "",
    prefix: str = "",
    defaults: Mapping[str, Any] = ...,
) -> Config: ...
def from_dict(
    default: Any,
    mapping: Any,
    where: str = "",
    prefix: str = "",
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Return a configuration with the values of a mapping; the other keys keep their defaults.

    Args:
        default: the configuration that has the default values, or a class with the defaults of its
            fields. A section of which some keys are given starts from its value there.
        mapping: the values by key.
        where: the source for messages, such as a file name.
        prefix: the path of the section, before its keys.
        defaults: default values that take the place of those of `default`.

    Raises:
        ConfigError: a key is unknown (the message names the nearest one), a value has the wrong
            type, or a key without a default is missing.
    """
    cls = default if isinstance(default, type) else type(default)
    hints = _hints(cls)
    if not isinstance(mapping, Mapping):
        convert(dict, mapping, prefix.rstrip("."), where)
    if unknown := next((key for key in mapping if key not in hints), None):
        raise unknown_key(prefix + unknown, keys_of(cls, prefix), where)
    chosen = {**defaults_of(default), **defaults}
    for key, item in mapping.items():
        if dataclasses.is_dataclass(section := chosen.get(key)) and isinstance(item, Mapping):
            chosen[key] = from_dict(section, item, where, f"{prefix}{key}.")
        else:
            chosen[key] = convert(hints[key], item, prefix + key, where)
    if missing := next((key for key in hints if key not in chosen), None):
        source = f" in {where}" if where else ""
        raise ConfigError(f"missing key '{prefix}{missing}'{source}: it has no default")
    try:
        return cls(**chosen)
    except OutOfRange as error:
        raise error.inside(prefix) from error


def defaults_of(default: Any) -> dict[str, Any]:
    """Return the value of each key of a configuration, or the defaults of a class.

    Keys of a class that have no default are left out.
    """
    fields = dataclasses.fields(default)
    if not isinstance(default, type):
        return {field.name: getattr(default, field.name) for field in fields}
    found = {}
    for field in fields:
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def keys_of(cls: type[Any], prefix: str = "") -> list[str]:
    """Return every key of a configuration class, including those of its sections:
    `optimizer.learning_rate`.
    """
    keys: list[str] = []
    for name, section in _sections(cls).items():
        keys += [prefix + name] if section is None else keys_of(section, f"{prefix}{name}.")
    return keys


def none_is_a_choice(hint: Any) -> bool:
    """Return whether "none" is one of the choices of a field that may also be None."""
    kinds = typing.get_args(hint)
    choices = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    return type(None) in kinds and any("none" in typing.get_args(each) for each in choices)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the key that was most likely meant, or None if no key is similar.

    Keys are compared by their last parts, so that `learning_rate` finds `optimizer.learning_rate`;
    of equal last parts, the one with the most similar section is chosen. `lr` finds it by its
    initials.
    """
    section, _, last = name.rpartition(".")

    def likeness(key: str) -> float:
        return SequenceMatcher(None, section, key.rpartition(".")[0]).ratio()

    keys: dict[str, str] = {}
    for key in sorted(names, key=likeness, reverse=True):
        keys.setdefault(key.rpartition(".")[2], key)
    for short, key in keys.items():
        if len(last) > 1 and last == "".join(word[0] for word in short.split("_")):
            return key
    close = get_close_matches(last, keys, n=1, cutoff=0.65)
    return keys[close[0]] if close else None


def unknown_key(name: str, names: Iterable[str], where: str = "") -> ConfigError:
    """Return the error for a key that does not exist, with the nearest key or the valid ones."""
    names = list(names)
    message = f"unknown key '{name}'" + (f" in {where}" if where else "")
    if guess := nearest(name, names):
        return ConfigError(f"{message}; did you mean '{guess}'?")
    valid = [key for key in names if key.rpartition(".")[0] == name.rpartition(".")[0]]
    valid = valid or list(dict.fromkeys(key.partition(".")[0] for key in names))
    return ConfigError(f"{message}; valid keys: {', '.join(valid)}")


def at_home(value: Any) -> Any:
    """Return a value with `~` in paths expanded: `~/runs/x`, or after a name (`reviews=~/runs/x`).

    Texts in lists and mappings are expanded too. A shell expands a word that begins with `~`, but
    not `--out=~/runs/x`; in a file, nothing does.
    """
    if isinstance(value, dict):
        return {key: at_home(item) for key, item in value.items()}
    if isinstance(value, list):
        return [at_home(item) for item in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"^((?:[\w.-]+=)?)~(?=/)", lambda m: m[1] + os.path.expanduser("~"), value)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file, with `~` expanded by `at_home`.

    Raises:
        ConfigError: the file is missing, not a file, or not TOML.
    """
    try:
        with open(path, "rb") as file:
            content: dict[str, Any] = at_home(tomllib.load(file))
            return content
    except FileNotFoundError:
        raise ConfigError(f"no configuration file {path}; --config takes a TOML file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def to_toml(value: Any) -> str:
    """Return a configuration or a mapping as TOML, which `read_toml` and `from_dict` can read."""
    import tomli_w

    return tomli_w.dumps(to_dict(_without_unset_choices(value), "none"))


def _without_unset_choices(value: Any) -> Any:
    """Return a configuration as mappings, without fields that are None although "none" is one of
    their choices, because the two could not be distinguished.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {}
    for name, hint in _hints(type(value)).items():
        item = getattr(value, name)
        if item is not None or not none_is_a_choice(hint):
            fields[name] = _without_unset_choices(item)
    return fields


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base`, updated with the keys of `over`, section by section."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as one mapping from keys to values: `{"optimizer.learning_rate":
    1e-4}`.
    """
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        inside = isinstance(value, Mapping)
        flat |= flatten(value, f"{prefix}{key}.") if inside else {prefix + key: value}
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"optimizer.learning_rate": 1e-3}` as `{"optimizer": {"learning_rate": 1e-3}}`."""
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        for section in reversed(key.split(".")):
            value = {section: value}
        whole = merge(whole, value)
    return whole


def differing_keys(a: Any, b: Any) -> list[str]:
    """Return the keys whose values differ between two configurations or mappings, in order."""
    flat_a, flat_b = flatten(to_dict(a)), flatten(to_dict(b))
    missing = object()
    return [k for k in flat_a | flat_b if flat_a.get(k, missing) != flat_b.get(k, missing)]


def convert(hint: Any, value: Any, key: str, where: str) -> Any:
    """Return `value` converted to the type `hint`; raise a ConfigError that names the key if it
    does not fit.
    """
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return convert(inside[0], value, key, where)
    if origin in (typing.Union, types.UnionType):
        unset = value is None or (value == "none" and not none_is_a_choice(hint))
        if type(None) in inside and unset:
            return None
        for choice in inside:
            if dataclasses.is_dataclass(choice) and isinstance(value, Mapping):
                return from_dict(choice, value, where, key + ".")
            with suppress(ConfigError):
                return convert(choice, value, key, where)
    elif origin is typing.Literal:
        # True equals 1 in Python, but not in a configuration
        if any(value == choice and type(value) is type(choice) for choice in inside):
            return value
    elif origin is tuple and isinstance(value, (list, tuple)):
        hints = inside[:1] * len(value) if inside[1:] == (...,) else inside
        if len(hints) == len(value):
            items = enumerate(zip(hints, value, strict=True))
            return tuple(convert(h, item, f"{key}[{n}]", where) for n, (h, item) in items)
    elif origin is dict and isinstance(value, Mapping):
        return {k: convert(inside[1], item, f"{key}.{k}", where) for k, item in value.items()}
    elif dataclasses.is_dataclass(hint):
        return value if type(value) is hint else from_dict(hint, value, where, key + ".")
    elif hint is float and type(value) in (int, float):
        with suppress(OverflowError):
            return float(value)
    elif hint is Path and isinstance(value, (str, Path)):
        return Path(value)
    elif hint is Any or type(value) is hint:
        return value
    source = f" in {where}" if where else ""
    came = f"{value!r} ({_name(type(value))})"
    raise ConfigError(f"'{key}'{source} must be {_name(hint)}, got {came}")


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of `cls`, in their order."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _sections(cls: type[Any]) -> dict[str, type[Any] | None]:
    """Return the class of each field of `cls` that is a section, and None for the other fields."""
    sections: dict[str, type[Any] | None] = {}
    for name, hint in _hints(cls).items():
        kinds = [kind for kind in (hint, *typing.get_args(hint)) if isinstance(kind, type)]
        sections[name] = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
    return sections


def _name(hint: Any) -> str:
    """Return the description of a type for messages."""
    inside = typing.get_args(hint)
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, inside))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_name, inside))
    if origin is tuple and inside and inside[1:] != (...,):
        return f"{len(inside)} values"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    words |= {Path: "a path", type(None): "none", list: "a list", tuple: "a list"}
    is_section = origin is dict or dataclasses.is_dataclass(origin)
    return "a section with keys" if is_section else words.get(origin, str(origin))
