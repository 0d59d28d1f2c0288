"""How a command line and the file that `--config` names become the arguments of a verb.

cyclopts lists the options, and reads and converts the words. This module adds to it:
configurations are built by `values.from_dict`, as everywhere; values in a file are checked as
strictly as those on the command line; "0.1,1" are two numbers; "none" means None unless it is one
of an option's own choices; "-" may be a value; and messages name the nearest right word.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import BoundArguments, getdoc, isfunction
from typing import Any, get_args

from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CycloptsError,
    MissingArgumentError,
    Token,
)
from cyclopts.config import Dict, Env

from bertwright.cli.variants import variant_of
from bertwright.config import values
from bertwright.config.ranges import OutOfRange
from bertwright.config.recipes import LENGTHS, recipe_file
from bertwright.errors import ConfigError

FROM_ENVIRONMENT = {"serve": "BERTWRIGHT_"}
"""Verb whose options may be environment variables -> their prefix: `BERTWRIGHT_PORT=8081`."""

ALSO_NEEDED = {
    "finetune": ("--train", "--corpus", "--tasks"),
    "evaluate": ("--model", "--predictions"),
}
"""Verb -> options of which it needs one; the first is the usual one."""

HYPHEN = "\0-"
"""Stands for the hyphen of the words that `_VALUE` matches, which cyclopts would read as options:
its `allow_leading_hyphen` would also take the next option as a value. No word of a command line can
have this character.
"""
_VALUE = re.compile(r"-|-\d[\d.]*=.+")  # standard input; a label that is renamed, as -1=negative


def read(app: App, words: Sequence[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """Return the function that a command line calls, and its arguments, converted and checked.

    If there are several errors, an unknown option is reported first, as it is often the reason
    why another option is missing.

    Raises:
        ConfigError: the command line or the file is wrong.
    """
    words = [HYPHEN + word[1:] if _VALUE.fullmatch(word) else word for word in words]
    try:
        for part in app.parse_commands(words)[1]:
            if isfunction(part.default_command):
                # the list of verbs shows one line each; a verb's help shows its whole docstring
                text = (getdoc(part.default_command) or "").partition("\n\nArgs:")[0]
                part.help = re.sub(r"(?<=\S)\n(?=\w)", " ", text)
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, ConfigError) as error:
        raise ConfigError(_message(app, words, error)) from error
    return verb, bound


def complete(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Add the values of the environment (for `serve`) and of `--config FILE.toml` to the arguments.

    Values of the command line take precedence over those of the environment, and these over those
    of the file. "none" is read as None unless it is one of the option's own choices. `HYPHEN`
    becomes "-" again, and `~` in the value of an option the home folder; positional arguments stay
    as the shell gave them. cyclopts calls this function when it has read the command line, before
    it converts any value.
    """
    for argument in arguments:
        argument.tokens[:] = [t.evolve(value=t.value.replace(HYPHEN, "-")) for t in argument.tokens]
    if prefix := FROM_ENVIRONMENT.get(" ".join(commands)):
        _check_variables(prefix, arguments)
        Env(prefix, command=False)(app, commands, arguments)
    given = arguments.get("--config", default=None)
    file: dict[str, Any] = {}
    if given is not None and given.tokens:
        file = _read_file(given.tokens[-1].value, commands, arguments)
    for argument in arguments:
        tokens = argument.tokens
        tokens[:] = [t.evolve(value=values.at_home(t.value)) if t.keyword else t for t in tokens]
        if _is_of_numbers(argument.hint):
            tokens[:] = [t.evolve(value=n) for t in tokens for n in t.value.split(",") if n]
        _check_whole(argument)
        if [t.value for t in tokens if t.keyword] == ["none"] and _none_is_nothing(argument.hint):
            tokens[0] = tokens[0].evolve(value="", implicit_value=None)
    for argument in arguments:
        if argument.children and not argument.keys:
            _build(argument, file, variant_of(app.default_command).build)
    of_verb: dict[str, Any] = {
        _key(a.name): file[_key(a.name)] for a in arguments if not a.keys and _key(a.name) in file
    }
    for command in reversed(commands):  # where cyclopts looks for the keys of a command
        of_verb = {command: of_verb}
    Dict(of_verb, source="--config")(app, commands, arguments)


def _build(
    whole: Argument, file: Mapping[str, Any], build: Callable[[dict[str, Any]], Any] | None
) -> None:
    """Build the configuration whose keys are the options below `whole`, and make it its value.

    cyclopts converts the options that were given. The configuration is built from its default value
    and what is given: the values of the file, and those of the options over them; `build` does this
    for a verb of its own way.

    Raises:
        MissingArgumentError: a key without a default is not given.
        ConfigError: a value is outside its range; the message names the option.
    """
    leaves = {leaf.keys: leaf for leaf in whole.children_recursive if not leaf.children}
    given: dict[str, Any] = {}
    for keys, leaf in leaves.items():
        if leaf.tokens:
            given[".".join(keys)] = leaf.convert_and_validate()
            leaf.tokens.clear()
        elif _key(leaf.name) in file:
            given[".".join(keys)] = file[_key(leaf.name)]
        elif leaf.required:
            raise MissingArgumentError(argument=leaf)
    if not given:
        return
    default = whole.field_info.default
    if not is_dataclass(default):
        default = whole.resolved_hint
    try:
        nested = values.nested(given)
        built = values.from_dict(default, nested) if build is None else build(nested)
    except OutOfRange as error:
        leaf = leaves[tuple(error.key.split("."))]
        raise ConfigError(f"{leaf.name} {error.range}") from error
    whole.append(Token(implicit_value=built))


def _check_variables(prefix: str, arguments: ArgumentCollection) -> None:
    """Raise ConfigError for a variable with nearly the name of a known one, as BERTWRIGHT_API_KEY.

    Otherwise the server would run without keys. Other variables with the prefix are allowed, as
    Kubernetes sets some.
    """
    known = [prefix + key.upper() for key in _keys(arguments)]
    for name in sorted(name for name in os.environ.keys() - {*known} if name.startswith(prefix)):
        if near := difflib.get_close_matches(name, known, 1, cutoff=0.85):
            raise ConfigError(
                f"unknown variable {name} in the environment; did you mean {near[0]}?"
            )


def _check_whole(argument: Argument) -> None:
    """Raise ConfigError if a whole number is given as 1.5, which cyclopts would round."""
    kinds = {argument.hint, *get_args(argument.hint)}
    for token in argument.tokens if int in kinds and not kinds & {float, str} else ():
        if re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", token.value):
            raise ConfigError(f"{argument.name} is {token.value}; expected a whole number")


def _is_of_numbers(hint: Any) -> bool:
    """Return whether an option takes several numbers, which may also be joined by commas."""
    return any(each in (tuple[int, ...], tuple[float, ...]) for each in (hint, *get_args(hint)))


def _none_is_nothing(hint: Any) -> bool:
    """Return whether an option may be None and "none" is not one of its own choices."""
    return type(None) in get_args(hint) and not values.none_is_a_choice(hint)


def _read_file(name: str, commands: Sequence[str], arguments: ArgumentCollection) -> dict[str, Any]:
    """Return the values of a file by key, after their types are checked.

    A text in the file is not accepted as a number. A length on the command line replaces those of
    the file, and a preset its whole `architecture`.
    """
    path = recipe_file(name) if tuple(commands) == ("pretrain",) else str(values.at_home(name))
    hints = {_key(a.name): a.hint for a in arguments if a.parse and a.name != "--config"}
    flat = values.flatten(values.read_toml(path))
    for key, value in flat.items():
        if key not in hints:
            raise values.unknown_key(key, _keys(arguments), path)
        values.convert(hints[key], value, key, path)
    chosen = {_key(a.name) for a in arguments if any(t.value != "none" for t in a.tokens)}
    if chosen.intersection(LENGTHS):
        flat = {key: value for key, value in flat.items() if key not in LENGTHS}
    if "model" in chosen:
        flat = {key: v for key, v in flat.items() if not key.startswith("architecture.")}
    return flat


def _message(app: App, words: Sequence[str], error: CycloptsError | ConfigError) -> str:
    """Return the message of an error: what was given, what was likely meant, and where to look."""
    commands, apps, rest = app.parse_commands(words)
    arguments = ArgumentCollection()  # type: ignore[no-untyped-call]
    if apps[-1].default_command:
        arguments = apps[-1].assemble_argument_collection(parse_docstring=True)
    message = str(error).strip().replace(HYPHEN, "-").replace("\\x00", "")
    options = [word.partition("=")[0] for word in rest[: (*rest, "--").index("--")]]
    options = [each for each in options if re.match("--?[A-Za-z]", each)]
    if not arguments and rest and rest[0].startswith("-"):  # an option where a verb is expected
        near = difflib.get_close_matches(rest[0], ("--version", "--help", "--help-all"), n=1)
        message = f"unknown option {rest[0]}; did you mean {near[0]}?" if near else message
    elif unknown := [each for each in options if arguments and not arguments.get(each, None)]:
        name, keys = _key(unknown[0]), _keys(arguments)
        guess = _nearest_option(name, keys)
        message = f"unknown option {unknown[0]}"
        if name in OF_STEPS and "epochs" in keys and "steps" not in keys:
            message += "; the length of this run is --epochs, its passes over the data."
        else:
            message += f"; did you mean --{guess.replace('_', '-')}?" if guess else "."
    elif isinstance(error, ConfigError):
        return message
    elif isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
        missing = error.argument
        name = missing.name if missing.index is None else _key(missing.name).upper()
        own = next((a for a in arguments if a.name == missing.name), missing)
        message = f"missing {name} ({own.parameter.help or 'required'})."
        given = {missing.name, *(a.name for each in options if (a := arguments.get(each, None)))}
        others = [a.name for a in arguments if a.required and a.index is None and a.name != "*"]
        also = ALSO_NEEDED.get(" ".join(commands), ())
        others += [] if given.intersection(also) else also[:1]
        others = [each for each in others if each not in given]
        if others and "--config" not in options:  # a file may have them
            message = f"missing {name}, {', '.join(others)}."
    if "nknown option" in message and "mean" not in message:
        message += " A text that begins with a dash comes after --."
    command = ("bertwright", *commands, *variant_of(apps[-1].default_command).words)
    return f"{message} {' '.join(command)} --help-all lists what there is."


SYNONYMS = {
    "batch_size": ("batch.tokens", "micro_tokens"),
    "num_train_epochs": ("epochs",),
    "max_steps": ("steps",),
    "output_dir": ("out",),
    "output": ("out",),
    "max_seq_length": ("instances.sequence_length", "sequence_length", "max_length"),
    "lr": ("optimizer.learning_rate", "learning_rate"),
    "warmup_steps": ("schedule.warmup", "warmup"),
    "weight_decay": ("optimizer.weight_decay",),
    "dropout": ("architecture.hidden_dropout_prob", "architecture.dropout"),
}
"""Name of an option in other programs -> our keys for it, of which a verb has one."""
OF_STEPS = ("steps", "max_steps", "minutes")
"""Lengths of runs in steps and in time, which other runs do not have."""


def _nearest_option(name: str, keys: Sequence[str]) -> str | None:
    """Return the key that an unknown option most likely means, or None if there is none.

    It is a key of the same meaning (`SYNONYMS`), or else one of similar spelling.
    """
    same = (key for key in SYNONYMS.get(name, ()) if key in keys)
    return next(same, None) or values.nearest(name, keys)


def _key(option: str) -> str:
    """Return the key of an option: `--optimizer.learning-rate` -> `optimizer.learning_rate`."""
    return option.lstrip("-").replace("-", "_")


def _keys(arguments: ArgumentCollection) -> list[str]:
    """Return the keys that can be given: those in sections, but not the sections themselves."""
    return [_key(a.name) for a in arguments if a.parse and not a.children]
