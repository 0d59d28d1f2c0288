"""How a command line, and the file that `--config` names, become the arguments of a verb.

cyclopts reads and converts. Added here: types of a file as strict as those of the command line,
"none" as None where it is no word of the option itself, "-" as a value, and messages that name the
nearest right word.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from inspect import BoundArguments, getdoc, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from cyclopts import App, Argument, ArgumentCollection, CycloptsError, MissingArgumentError
from cyclopts.config import Dict, Env

from bertwright.cli.rewriting import as_new_verb
from bertwright.config import values
from bertwright.config.ranges import OutOfRange
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.config.run import RunConfig

RECIPES = Path(__file__).parents[1] / "recipes"
"""Where the recipes are that `--config NAME` finds."""

FROM_ENVIRONMENT = {"serve": "BERTWRIGHT_"}
"""Verbs whose options the environment may give, with the prefix: `BERTWRIGHT_PORT=8081`."""

LENGTHS = ("steps", "minutes", "epochs")
"""Keys of which a run has one: one on the command line takes the place of those of the file."""

HYPHEN = "\0-"
"""Stands for the word "-", standard input, while cyclopts would take it for an option."""


def read(app: App, words: Sequence[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """The function that a command line means, and its arguments, converted and checked.

    Of several errors an unknown option is reported first: it is often why another is missing.
    """
    words = [HYPHEN if word == "-" else word for word in words]
    try:
        for part in app.parse_commands(words)[1]:
            words = _with_present_names(part, words)
            if isfunction(part.default_command):
                # the list of verbs shows one line; the help of one shows all, as wide as it likes
                text = (getdoc(part.default_command) or "").partition("\n\nArgs:")[0]
                part.help = re.sub(r"(?<=\S)\n(?=\w)", " ", text)
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, ConfigError) as error:
        raise ConfigError(_message(app, words, error)) from error
    return verb, bound


def _with_present_names(app: App, words: Sequence[str]) -> list[str]:
    """The words of a command line with the present names of options that had other ones."""
    configured = _configured(app)
    former = {} if configured is None else values.former_keys(configured)
    end = (*words, "--").index("--")
    renamed = list(words)
    for index, word in enumerate(words[:end]):
        option, sign, value = word.partition("=")
        if option.startswith("--") and _key(option) in former:
            renamed[index] = f"--{former[_key(option)].replace('_', '-')}{sign}{value}"
    return renamed


def _configured(app: App) -> type[RunConfig] | None:
    """The class of runs whose keys the options of `pretrain` are; None: it is another verb."""
    command = app.default_command
    return vars(command).get("configures") if isfunction(command) else None


def complete(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Put the values of the environment (of `serve`) and of `--config FILE.toml` below those of the
    command line, in this order; read "none" as None unless it is one of the option's own words.

    "-" becomes itself again, and `~` in the value of an option the home folder; a text that stands
    alone is as the shell gave it. cyclopts calls this when the command line is read, before any
    value is made.
    """
    for argument in arguments:
        argument.tokens[:] = [t.evolve(value=t.value.replace(HYPHEN, "-")) for t in argument.tokens]
    if prefix := FROM_ENVIRONMENT.get(" ".join(commands)):
        _check_variables(prefix, arguments)
        Env(prefix, command=False)(app, commands, arguments)
    given = arguments.get("--config", default=None)
    if given is not None and given.tokens:
        _read_file(given.tokens[-1].value, app, commands, arguments)
    for argument in arguments:
        tokens = argument.tokens
        tokens[:] = [t.evolve(value=values.at_home(t.value)) if t.keyword else t for t in tokens]
        _check_whole(argument)
        if [t.value for t in tokens if t.keyword] == ["none"] and _none_is_nothing(argument.hint):
            tokens[0] = tokens[0].evolve(value="", implicit_value=None)


def _check_variables(prefix: str, arguments: ArgumentCollection) -> None:
    """Raise ConfigError at a variable that is nearly one of ours, as BERTWRIGHT_API_KEY: else the
    server would run without keys. Others may be there: Kubernetes makes some."""
    known = [prefix + key.upper() for key in _keys(arguments)]
    for name in sorted(name for name in os.environ.keys() - {*known} if name.startswith(prefix)):
        if near := difflib.get_close_matches(name, known, 1, cutoff=0.85):
            raise ConfigError(
                f"unknown variable {name} in the environment; did you mean {near[0]}?"
            )


def _check_whole(argument: Argument) -> None:
    """Raise ConfigError at 1.5 for a whole number, which cyclopts would round."""
    kinds = {argument.hint, *get_args(argument.hint)}
    for token in argument.tokens if int in kinds and not kinds & {float, str} else ():
        if re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", token.value):
            raise ConfigError(f"{argument.name} is {token.value}; expected a whole number")


def _none_is_nothing(hint: Any) -> bool:
    """Whether an option may be None and has no word "none" of its own."""
    return type(None) in get_args(hint) and not values.none_is_a_choice(hint)


def _read_file(
    name: str, app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Check the keys and types of a file, a text being no number, and give it to cyclopts."""
    path = find_file(name, commands)
    hints = {_key(a.name): a.hint for a in arguments if a.parse and a.name != "--config"}
    if (configured := _configured(app)) is None:
        mapping = values.read_toml(path)
    else:
        from bertwright.config.run_file import read_run_file

        mapping = read_run_file(path, configured)
    for key, value in values.flatten(mapping).items():
        if key not in hints:
            raise values.unknown_key(key, _keys(arguments), path)
        values.convert(hints[key], value, key, path)
    if any(t.value != "none" for a in arguments if _key(a.name) in LENGTHS for t in a.tokens):
        mapping = {key: value for key, value in mapping.items() if key not in LENGTHS}
    for command in reversed(commands):  # cyclopts' place of a command's keys in a file of many
        mapping = {command: mapping}
    Dict(mapping, source=path)(app, commands, arguments)


def find_file(name: str, commands: Sequence[str]) -> str:
    """The file that `--config` names, or that of a recipe where a bare name means no file here."""
    path = Path(values.at_home(name))
    is_name = path.name == name and not path.suffix and tuple(commands) == ("pretrain",)
    if not is_name or path.exists():
        return str(path)
    recipes = {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}
    if name not in recipes:
        guess = values.nearest(name, recipes)
        raise ConfigError(
            f"no configuration file {name} and no recipe of this name; "
            f"{f'did you mean {guess}? ' if guess else ''}the recipes are: {', '.join(recipes)}"
        )
    return str(recipes[name])


def _message(app: App, words: Sequence[str], error: CycloptsError | ConfigError) -> str:
    """What to say of an error: what came, what was meant, where to look."""
    commands, apps, rest = app.parse_commands(words)
    arguments = ArgumentCollection()  # type: ignore[no-untyped-call]
    if apps[-1].default_command:
        arguments = apps[-1].assemble_argument_collection(parse_docstring=True)
    if isinstance(error, OutOfRange):
        sections = [a.name for a in arguments if a.hint is error.section and a.name != "*"]
        name = error.name.replace("_", "-")
        return f"{'.'.join([*sections, name]) if sections else '--' + name} {error.range}"
    message = str(error).strip().replace(HYPHEN, "-").replace("\\x00", "")
    options = [word.partition("=")[0] for word in rest[: (*rest, "--").index("--")]]
    options = [each for each in options if re.match("--?[A-Za-z]", each)]
    if not arguments and rest and rest[0].startswith("-"):  # an option where a verb is expected
        near = difflib.get_close_matches(rest[0], ("--version", "--help", "--help-all"), n=1)
        message = f"unknown option {rest[0]}; did you mean {near[0]}?" if near else message
    elif new := as_new_verb([word.replace(HYPHEN, "-") for word in words]):
        return new
    elif unknown := [each for each in options if arguments and not arguments.get(each, None)]:
        guess = _nearest_option(_key(unknown[0]), _keys(arguments))
        message = f"unknown option {unknown[0]}"
        message += f"; did you mean --{guess.replace('_', '-')}?" if guess else "."
    elif isinstance(error, ConfigError):
        return message
    elif isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
        missing = error.argument
        name = missing.name if missing.index is None else _key(missing.name).upper()
        own = next((a for a in arguments if a.name == missing.name), missing)
        message = f"missing {name} ({own.parameter.help or 'required'})."
    if "nknown option" in message and "mean" not in message:
        message += " A text that begins with a dash comes after --."
    return f"{message} {' '.join(['bertwright', *commands])} --help-all lists what there is."


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
"""What other programs call an option -> our keys for it, of which a verb has one."""


def _nearest_option(name: str, keys: Sequence[str]) -> str | None:
    """Return the key that was most likely meant by an option: one of the same meaning, or else one
    that is spelled like it."""
    same = (key for key in SYNONYMS.get(name, ()) if key in keys)
    return next(same, None) or values.nearest(name, keys)


def _key(option: str) -> str:
    """`--optimizer.learning-rate` -> `optimizer.learning_rate`"""
    return option.lstrip("-").replace("-", "_")


def _keys(arguments: ArgumentCollection) -> list[str]:
    """What can be given: every key of the sections, and not the sections themselves."""
    return [_key(a.name) for a in arguments if a.parse and not a.children]
