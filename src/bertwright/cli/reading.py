"""How a command line, and the file that `--config` names, become the arguments of a verb.

cyclopts reads and converts; here is what it leaves to us: a file judged as strictly as the command
line, "none" as None where it is no word of the option itself, `--no-section.key`, and messages that
name the nearest right word.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from inspect import BoundArguments, getdoc, isfunction
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.config import Dict, Env

from bertwright.config import values
from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

RECIPES = Path(__file__).parents[1] / "recipes"
"""Where the recipes are that `--config NAME` finds."""

FROM_ENVIRONMENT = {"serve": "BERTWRIGHT_"}
"""Verbs whose options the environment may give, with the prefix: `BERTWRIGHT_PORT=8081`."""

LENGTHS = ("steps", "minutes", "epochs")
"""Keys of which a run has one: given on the command line, it puts those of the file aside."""

HYPHEN = "\0-"
"""Stands for the word "-", standard input, while cyclopts would take it for an option."""


def read(app: App, words: Sequence[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """The function that a command line means, and its arguments, converted and judged.

    Of several errors an unknown option is told first: it is often why another option is missing.
    """
    end = words.index("--") if "--" in words else len(words)
    words = [*map(_dotted_negative, words[:end]), *words[end:]]
    words = [HYPHEN if word == "-" else word for word in words]
    try:
        for part in app.parse_commands(words)[1]:
            if isfunction(part.default_command):
                # the list of verbs shows one line; the help of one shows all, as wide as it likes
                text = getdoc(part.default_command) or ""
                part.help = re.sub(r"(?<=\S)\n(?=\w)", " ", text)
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, ConfigError) as error:
        if isinstance(error, UnknownCommandError):
            raise ConfigError(_unknown_verb(error)) from error
        if message := _unknown_option(app, words):
            raise ConfigError(message) from error
        if isinstance(error, CycloptsError):
            raise ConfigError(_mistake(error)) from error
        if isinstance(error, OutOfRange):
            raise ConfigError(f"{_option(app, words, error)} {error.range}") from error
        raise
    return verb, bound


def complete(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Put the values of the environment (of `serve`) and of `--config FILE.toml` below those of the
    command line, in this order; read "none" as None unless it is one of the option's own words.

    "-" becomes itself again, and `~` in the value of an option the home folder; a text that stands
    alone is as the shell gave it. cyclopts calls this when the command line is read, before any
    value is made.
    """
    for argument in arguments:
        for place, token in enumerate(argument.tokens):
            if token.value == HYPHEN:
                argument.tokens[place] = token.evolve(value="-")
    for prefix in [FROM_ENVIRONMENT[verb] for verb in commands if verb in FROM_ENVIRONMENT]:
        _refuse_misspelt(prefix, arguments)
        Env(prefix, command=False)(app, commands, arguments)
    given = arguments.get("--config", default=None)
    if given is not None and given.tokens:
        _read_file(values.at_home(given.tokens[-1].value), app, commands, arguments)
    for argument in arguments:
        _refuse_fractions(argument)
        argument.tokens[:] = [
            token.evolve(value=values.at_home(token.value)) if token.keyword else token
            for token in argument.tokens
        ]
        nothing = [token.value for token in argument.tokens if token.keyword] == ["none"]
        if nothing and _none_is_nothing(argument.hint):
            argument.tokens[0] = argument.tokens[0].evolve(value="", implicit_value=None)


def _refuse_misspelt(prefix: str, arguments: ArgumentCollection) -> None:
    """Raise ConfigError at a variable that is nearly one of ours, as BERTWRIGHT_API_KEY: without a
    word the server would go without keys. Others may be there: Kubernetes makes some."""
    known = [key.upper() for key in _keys(arguments)]
    for name in sorted(os.environ):
        own = name.removeprefix(prefix)
        near = difflib.get_close_matches(own, known, n=1, cutoff=0.8) if own != name else []
        if near and own not in known:
            raise ConfigError(
                f"unknown variable {name} in the environment; did you mean {prefix}{near[0]}?"
            )


def _refuse_fractions(argument: Argument) -> None:
    """Raise ConfigError at 1.5 for a whole number, which cyclopts would round."""
    kinds = {argument.hint, *get_args(argument.hint)}
    if int not in kinds or kinds & {float, str}:
        return
    for token in argument.tokens:
        if re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", token.value):
            raise ConfigError(f"{argument.name} is {token.value}; expected a whole number")


def _none_is_nothing(hint: Any) -> bool:
    """Whether an option may be None and has no word "none" of its own."""
    kinds = get_args(hint)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return type(None) in kinds and "none" not in words


def _read_file(
    path: str, app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Judge the keys and types of a file, strictly, and give its values to cyclopts.

    A TOML text is no number here, and a key that no option has is an error.
    """
    hints = {_key(a.name): a.hint for a in arguments if a.parse and a.name != "--config"}
    path = _recipe(path, commands)
    mapping = values.read_toml(path)
    for key, value in values.flatten(mapping).items():
        if key not in hints:
            raise values.unknown_key(key, _keys(arguments), path)
        values.convert(hints[key], value, key, path)
    if any(t.value != "none" for a in arguments if _key(a.name) in LENGTHS for t in a.tokens):
        mapping = {key: value for key, value in mapping.items() if key not in LENGTHS}
    for command in reversed(commands):  # cyclopts' place of a command's keys in a file of many
        mapping = {command: mapping}
    Dict(mapping, source=path)(app, commands, arguments)


def _recipe(name: str, commands: Sequence[str]) -> str:
    """The file of a recipe that comes with Bertwright, where a bare name means no file here."""
    if Path(name).exists() or Path(name).name != name or Path(name).suffix:
        return name
    recipes = {path.stem: path for path in RECIPES.glob("*.toml")}
    if tuple(commands) != ("pretrain",):
        found = "a recipe of pretrain" if name in recipes else "no file"
        raise ConfigError(
            f"--config is {name}, {found}; {_asked(commands)} takes a TOML file of its options"
        )
    if name not in recipes:
        guess = values.nearest(name, recipes)
        meant = f"did you mean {guess}? " if guess else ""
        raise ConfigError(
            f"no configuration file {name} and no recipe of this name; {meant}"
            f"the recipes are: {', '.join(sorted(recipes))}"
        )
    return str(recipes[name])


def _key(option: str) -> str:
    """`--optimizer.learning-rate` -> `optimizer.learning_rate`"""
    return option.lstrip("-").partition("=")[0].replace("-", "_")


def _keys(arguments: ArgumentCollection) -> list[str]:
    """What can be given: every key of the sections, and not the sections themselves."""
    return [_key(a.name) for a in arguments if a.parse and not a.children]


def _option(app: App, words: Sequence[str], error: OutOfRange) -> str:
    """The option whose value is out of range: its section is where its class stands."""
    section = ""
    for argument in app.parse_commands(words)[1][-1].assemble_argument_collection():
        if argument.hint is error.section and argument.name != "*":
            section = argument.name.removeprefix("--") + "."
    return f"--{section}{error.name.replace('_', '-')}"


def _dotted_negative(word: str) -> str:
    """`--no-optimizer.decay` -> `--optimizer.no-decay`, the form that cyclopts knows."""
    return re.sub(r"^--no-((?:\w+\.)+)", r"--\1no-", word)


def _unknown_option(app: App, words: Sequence[str]) -> str | None:
    """Name the first option that does not exist and the nearest that does; None where all exist."""
    commands, apps, rest = app.parse_commands(words)
    arguments = apps[-1].assemble_argument_collection()
    keys = _keys(arguments)
    more = f"{_asked(commands)} --help lists what there is."
    for word in rest[: rest.index("--") if "--" in rest else None]:
        option = word.partition("=")[0]
        if not re.match(r"-[-A-Za-z]", option) or _exists(option, arguments):
            continue
        if "." in option:
            message = str(values.unknown_key(_key(option), keys))
            return f"{message}{'' if message.endswith('?') else '.'} {more}"
        guess = values.nearest(_key(option), keys)
        meant = f"; did you mean --{guess.replace('_', '-')}? " if guess else ". "
        return f"unknown option {option}{meant}{_dashed(word)}{more}"
    return None


def _dashed(word: str) -> str:
    """What to do with a text that was taken for an option; nothing where it is no text."""
    if re.fullmatch(r"-{1,2}[A-Za-z][\w.-]*(=.*)?", word, re.DOTALL):
        return ""
    return f"Before a text that begins with a dash, put --: -- {word!r}. "


def _exists(option: str, arguments: ArgumentCollection) -> bool:
    """Whether one of the arguments goes by this name."""
    try:
        arguments.match(option)
    except ValueError:
        return False
    return True


def _unknown_verb(error: UnknownCommandError) -> str:
    """Name the nearest verb of the group that was asked."""
    asked = _asked(error.command_chain)
    word = error.unused_tokens[0] if error.unused_tokens else ""
    guess = values.nearest(word, [name for name in error.app or () if not name.startswith("-")])
    meant = f"did you mean '{asked} {guess}'? " if guess else ""
    return f"unknown verb '{word}'; {meant}{asked} --help lists what there is."


def _mistake(error: CycloptsError) -> str:
    """What to say of the other errors of cyclopts."""
    more = f"{_asked(error.command_chain)} --help lists what there is."
    if isinstance(error, UnusedCliTokensError):
        unused = [word.lstrip("\0") for word in error.unused_tokens or ()]
        return f"unexpected {' '.join(map(repr, unused))}. {more}"
    if isinstance(error, UnknownOptionError) and error.token is not None:
        word = error.token.keyword or error.token.value
        return f"unknown option {word}. {_dashed(word)}{more}"
    argument = error.argument
    if type(error) is MissingArgumentError and argument is not None and not error.keyword:
        about = f" ({argument.parameter.help})" if argument.parameter.help else ""
        name = argument.name if argument.index is None else _key(argument.name).upper()
        return f"missing {name}{about}. {more}"
    return str(error).strip().replace(HYPHEN, "-")


def _asked(commands: Sequence[str] | None) -> str:
    """The verb as it was typed: `bertwright data build`."""
    return " ".join(["bertwright", *(commands or ())])
