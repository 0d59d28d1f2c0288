"""Configurations as values: frozen dataclasses <-> mappings <-> TOML, strict in both directions.

A configuration is a frozen dataclass whose fields are numbers, booleans, text, `Literal` choices,
tuples, mappings, `None` or other such dataclasses (sections). A key is the path to a field,
`optimizer.learning_rate`. TOML knows no null, so None is written as the text "none", and "none" is
read as None wherever a field may be None; the command line does the same.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

Config = TypeVar("Config")


def to_dict(value: Any) -> Any:
    """A configuration as plain mappings, lists, numbers and text; the inverse of `from_dict`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_dict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_dict(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value


def plain(value: Any) -> Any:
    """Any value in the forms that JSON has; infinity and NaN become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def from_dict(cls: type[Config], mapping: Mapping[str, Any], where: str = "") -> Config:
    """Make a `cls` of `mapping`; keys left out keep their defaults.

    `where` names the source in messages (a file name). Raises ConfigError at an unknown key, with
    the nearest valid one, at a value of the wrong type, and at a missing key without a default.
    """
    made: Config = _section(cls, mapping, "", where)
    return made


def keys_of(cls: type[Any], prefix: str = "") -> list[str]:
    """Every key of a configuration class, sections followed into: `optimizer.learning_rate`."""
    keys: list[str] = []
    for name, hint in _hints(cls).items():
        section = _section_class(hint)
        if section is None:
            keys.append(prefix + name)
        else:
            keys.extend(keys_of(section, f"{prefix}{name}."))
    return keys


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The key that was most likely meant, or None where nothing is near.

    First among the keys of the same section, or of the one whose name is nearest, then among all by
    their last parts: `learning_rate` without its section finds `optimizer.learning_rate`.
    """
    names = list(names)
    section, _, last = name.rpartition(".")
    beside = keys_in(_nearest_section(section, names) or section, names)
    for keys, cutoff in ((beside, 0.6), (names, 0.75)):
        last_parts = {key.rpartition(".")[2]: key for key in reversed(keys)}
        close = difflib.get_close_matches(last, last_parts, n=1, cutoff=cutoff)
        if close:
            return last_parts[close[0]]
    if section:  # compared whole, all keys of a section would be near
        return None
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    return close[0] if close else None


def keys_in(section: str, names: Iterable[str]) -> list[str]:
    """The keys that stand in a section; "": those in none."""
    return [key for key in names if key.rpartition(".")[0] == section]


def _nearest_section(section: str, names: Iterable[str]) -> str | None:
    sections = {key.rpartition(".")[0] for key in names}
    close = difflib.get_close_matches(section, sections, n=1, cutoff=0.6)
    return section if section in sections else close[0] if close else None


def unknown_key(name: str, names: Iterable[str], where: str = "") -> ConfigError:
    """The error for a key that does not exist: what came, what was meant, what there is."""
    names = list(names)
    guess = nearest(name, names)
    message = f"unknown key '{name}'" + (f" in {where}" if where else "")
    if guess is not None:
        return ConfigError(f"{message}; did you mean '{guess}'?")
    section = name.rpartition(".")[0]
    meant = _nearest_section(section, names)
    if meant is None:
        there = sorted({key.partition(".")[0] for key in names if "." in key})
        return ConfigError(f"{message}; no section '{section}', there are {', '.join(there)}")
    message += f"; no section '{section}', did you mean '{meant}'?" if meant != section else ";"
    return ConfigError(f"{message} valid keys: {', '.join(keys_in(meant, names))}")


def at_home(text: str) -> str:
    """`~/runs/x`, also behind a name (`reviews=~/runs/x`), with the folder that `~` stands for.

    A shell does this for a word that begins so, not for `--out=~/runs/x`, and nobody in a file.
    """
    found = re.match(r"([\w.-]+=)?~(?=/)", text)
    return f"{found[1] or ''}{os.path.expanduser('~')}{text[found.end() :]}" if found else text


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file; texts that begin with `~/` are `at_home`.

    Raises ConfigError where it is missing, not a file or not TOML.
    """
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = _at_home(tomllib.load(file))
            return found
    except FileNotFoundError:
        raise ConfigError(f"no configuration file {path}; --config takes a TOML file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _at_home(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _at_home(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_at_home(item) for item in value]
    return at_home(value) if isinstance(value, str) else value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` on top, section by section."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as one mapping from keys to values: `{"optimizer.learning_rate": 1e-4}`."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def differing_keys(a: Any, b: Any) -> list[str]:
    """The keys whose values differ between two configurations or mappings, in order."""
    flat_a, flat_b = flatten(to_dict(a)), flatten(to_dict(b))
    missing = object()
    keys = list(flat_a) + [key for key in flat_b if key not in flat_a]
    return [key for key in keys if flat_a.get(key, missing) != flat_b.get(key, missing)]


def to_toml(value: Any) -> str:
    """Write a configuration or a mapping as TOML that `read_toml` and `from_dict` read back."""
    lines: list[str] = []
    _write_table(to_dict(value), "", lines)
    return "\n".join(lines).strip("\n") + "\n"


def _write_table(table: Mapping[str, Any], prefix: str, lines: list[str]) -> None:
    """Append plain keys first, then each section under its header."""
    for key, value in table.items():
        if not isinstance(value, Mapping):
            lines.append(f"{_toml_key(key)} = {_toml_value(value)}")
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = prefix + _toml_key(key)
            lines.extend(["", f"[{name}]"])
            _write_table(value, name + ".", lines)


def _toml_key(key: str) -> str:
    """A key bare where TOML allows it, else quoted."""
    bare = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    return key if bare else _toml_text(key)


def _toml_text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, and TOML wants DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    """One value on one line."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        # repr gives the shortest text that reads back as the same number
        return repr(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items())
        return "{ " + inside + " }"
    raise ConfigError(f"{type(value).__name__} {value!r} cannot be written as TOML")


def _hints(cls: type[Any]) -> dict[str, Any]:
    """The types of the fields of `cls`, in their order."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _section_class(hint: Any) -> type[Any] | None:
    """The dataclass that `hint` is or may be, else None."""
    for choice in (hint, *typing.get_args(hint)):
        if isinstance(choice, type) and dataclasses.is_dataclass(choice):
            return choice
    return None


def _fields(cls: type[Any], mapping: Any, prefix: str, where: str) -> dict[str, Any]:
    """The keyword arguments for `cls`; sections inside are checked only when `mapping` has them."""
    if not isinstance(mapping, Mapping):
        raise _wrong(prefix.rstrip("."), where, "a section with keys", mapping)
    hints = _hints(cls)
    for key in mapping:
        if key not in hints:
            raise unknown_key(f"{prefix}{key}", keys_of(cls, prefix), where)
    return {key: convert(hints[key], item, prefix + key, where) for key, item in mapping.items()}


def _section(cls: type[Any], mapping: Any, prefix: str, where: str) -> Any:
    """Make a dataclass of a mapping."""
    given = _fields(cls, mapping, prefix, where)
    for field in dataclasses.fields(cls):
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and field.name not in given:
            place = f" in {where}" if where else ""
            raise ConfigError(f"missing key '{prefix}{field.name}'{place}: it has no default")
    try:
        return cls(**given)
    except OutOfRange as error:
        raise ConfigError(f"{prefix}{error.name} {error.range}") from error


def convert(hint: Any, value: Any, key: str, where: str) -> Any:
    """`value` as the type `hint`, or a ConfigError that names the key."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return convert(arguments[0], value, key, where)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        if type(None) in arguments and (value is None or value == "none"):
            return None
        return _convert_union(arguments, value, key, where)
    if origin is typing.Literal:
        # True == 1 in Python, not in a configuration
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        raise _wrong(key, where, _name(hint), value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else _section(hint, value, key + ".", where)
    if origin in (tuple, list) and isinstance(value, (list, tuple)):
        return _convert_items(origin, arguments, value, key, where)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {k: convert(arguments[1], v, f"{key}.{k}", where) for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if isinstance(hint, type) and isinstance(value, hint):
        if isinstance(value, bool) and hint is not bool:
            raise _wrong(key, where, _name(hint), value)
        return value
    raise _wrong(key, where, _name(hint), value)


def _convert_union(choices: tuple[Any, ...], value: Any, key: str, where: str) -> Any:
    """The first of `choices` that takes `value`; a section's own error passes as it is."""
    for choice in choices:
        if choice is type(None):
            continue
        section = isinstance(choice, type) and dataclasses.is_dataclass(choice)
        if section and isinstance(value, Mapping):
            return _section(choice, value, key + ".", where)
        try:
            return convert(choice, value, key, where)
        except ConfigError:
            continue
    raise _wrong(key, where, " or ".join(_name(choice) for choice in choices), value)


def _convert_items(
    origin: Any, hints: tuple[Any, ...], items: Any, key: str, where: str
) -> list[Any] | tuple[Any, ...]:
    """A tuple or list whose items are converted one by one."""
    if origin is list or (len(hints) == 2 and hints[1] is Ellipsis):
        hints = (hints[0],) * len(items)
    if len(hints) != len(items):
        raise _wrong(key, where, f"{len(hints)} values", items)
    converted = [
        convert(hint, item, f"{key}[{index}]", where)
        for index, (hint, item) in enumerate(zip(hints, items, strict=True))
    ]
    return converted if origin is list else tuple(converted)


def _wrong(key: str, where: str, expected: str, value: Any) -> ConfigError:
    """The error for a value of the wrong type."""
    place = f" in {where}" if where else ""
    return ConfigError(f"'{key}'{place} must be {expected}, got {value!r} ({_name(type(value))})")


def _name(hint: Any) -> str:
    """A type in a reader's words."""
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(hint))
    origin = typing.get_origin(hint) or hint
    words = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        Path: "a path",
        type(None): "none",
        list: "a list",
        tuple: "a list",
        dict: "a section with keys",
    }
    return words.get(origin, getattr(origin, "__name__", str(origin)))
