"""The verbs and options of the command line, asked of the objects that make `--help`."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bertwright.cli.app import make_app
from bertwright.cli.variants import variant_of
from bertwright.models.catalogue import MODELS, trainable
from bertwright.tasks.catalogue import KINDS


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a verb."""

    names: tuple[str, ...]
    """`--out`; for a switch also `--no-...`."""
    type: str
    default: str | None
    """As on the command line; None: the option is required."""
    help: str
    positional: bool

    @property
    def key(self) -> str:
        """The key in a file for `--config` and in Python: `optimizer.learning_rate`."""
        return self.names[0].lstrip("-").replace("-", "_")

    @property
    def section(self) -> str:
        """The part of the key before its last dot, empty if there is none."""
        return self.key.rpartition(".")[0]


def verbs_below(app: Any, *above: str) -> Iterator[list[str]]:
    """Yield every verb, as its words."""
    if above and app.default_command is not None:
        yield list(above)
    for name in app:
        if not name.startswith("-"):
            yield from verbs_below(app[name], *above, name)


def variants() -> Mapping[str, Mapping[str, list[str]]]:
    """Return the verbs whose options depend on a word of the command line, with these words:
    a system for `pretrain`, a kind of task for `finetune` and `compare`.
    """
    systems = {system: ["--model", next(iter(MODELS[system].presets))] for system in trainable()}
    return {
        "pretrain": systems,
        "finetune": {kind: [kind] for kind in (*KINDS, "multitask")},
        "compare": {kind: ["--kind", kind] for kind in KINDS},
    }


def command_of(verb: Sequence[str], words: Sequence[str] = ()) -> Any:
    """Return the part of the application that a verb is, for the words after it."""
    app: Any = make_app(words=[*verb, *words])
    for name in verb:
        app = app[name]
    return app


def options_of(verb: Sequence[str], words: Sequence[str] = ()) -> list[Option]:
    """Return the options of a verb, for the words after it that decide what it has."""
    app = command_of(verb, words)
    variant = variant_of(app.default_command)
    found = []
    for argument in app.assemble_argument_collection(parse_docstring=True):
        if not argument.parse or argument.children or argument.name == "*":
            continue
        key = argument.name.lstrip("-").replace("-", "_")
        if not variant.has_option(key):
            continue
        default = argument.field_info.default if argument.field_info else inspect.Parameter.empty
        default = variant.defaults.get(key, default)
        found.append(
            Option(
                tuple(name for name in argument.names if not name.startswith("--empty-")),
                type_of(argument.hint),
                None if default is inspect.Parameter.empty else shown(default),
                re.sub(r"\s*\n\s*", " ", variant.texts.get(key) or argument.parameter.help or ""),
                argument.index is not None,
            )
        )
    return found


def type_of(hint: Any) -> str:
    """Return a type in short: `int | none`, `{cls, mean}`, `float...` for several."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_of(parts[0])
    if origin is Literal:
        return "{" + ", ".join(map(str, parts)) + "}"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(sorted(map(type_of, parts), key=lambda name: (name == "none", name)))
    if origin in (tuple, list):
        return f"{type_of(parts[0])}..."
    return "none" if hint is type(None) else str(getattr(hint, "__name__", hint)).lower()


def shown(default: Any) -> str:
    """Return a default as the command line has it."""
    if isinstance(default, tuple | list):
        return " ".join(map(str, default)) or "none"
    return "none" if default is None else str(default) or '""'
