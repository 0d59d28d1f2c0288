"""`bertwright pretrain`: pre-train a model on shards."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, ConfigFile, Flag, Overwrite, given
from bertwright.cli.variants import Variant, vary
from bertwright.config import values
from bertwright.config.recipes import recipe_file
from bertwright.config.run import RunConfig, StepRun
from bertwright.console import say
from bertwright.errors import ConfigError
from bertwright.models.catalogue import (
    MODELS,
    Row,
    make_run,
    not_trained,
    row_of,
    system_name,
    system_of_model,
    trainable,
)


def verb_for(words: Sequence[str]) -> Callable[..., None]:
    """Return the verb with the options of the system that the command line names.

    --model names the system, else the checkpoint of --init does. The file of --config may hold
    either.

    Raises:
        ConfigError: there is no such model, the file cannot be read, or the system does not read an
            option.
    """
    file: dict[str, Any] = {}
    if config := given(words, "config"):
        file = values.read_toml(recipe_file(config))
    chosen = (given(words, name) or file.get(name) for name in ("model", "init"))
    model, init = (None if name == "none" else name for name in chosen)
    system = None if model or not init else _system_of(Path(values.at_home(init)))
    if system in MODELS and system not in trainable():
        raise not_trained(system)
    name = system if system in trainable() else system_of_model(model)
    _refuse_fixed(words, MODELS[name])
    return _verb(MODELS[name], model)


def _refuse_fixed(words: Sequence[str], row: Row) -> None:
    """Raise ConfigError if an option is a key of `architecture` that no run of a system sets."""
    options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    for option in options:
        key = option.removeprefix("--").replace("-", "_").removeprefix("no_")
        if not _is_option(row, key):
            raise ConfigError(
                f"{row.name} has no {option}: remove it. bertwright pretrain --model "
                f"{row.default} --help-all lists the options that it has"
            )


def _verb(row: Row, model: str | None) -> Callable[..., None]:
    """Return the verb `pretrain`, whose options are the keys of one system's runs, with the sizes
    of a preset as defaults.
    """

    def pretrain(
        *,
        config: RunConfig,
        config_file: ConfigFile = None,
        resume: Flag = False,
        overwrite: Overwrite = False,
        verify: bool = True,
    ) -> None:
        """Pre-train a model on shards that `data build` wrote; without --model and --init a BERT.

        The options that set the length of the run depend on the model. Ctrl-C and SIGTERM save the
        run and end it with exit codes 130 and 143; the same command with --resume continues it.

        Args:
            resume: Continue the run in --out, or start it if there is none. Only options of
                log, checkpoint and parallel may be changed.
            verify: Compare the files of the shards with their SHA-256 before training;
                --no-verify compares only their sizes.
        """
        # if the data do not exist, the recipe reports that first
        if isinstance(config, StepRun) and Path(config.data).exists():
            config.require_length()  # before torch is imported, which takes seconds
        from bertwright.recipes.pretrain import pretrain as run_pretraining

        folder = run_pretraining(config, say, overwrite=overwrite, resume=resume, verify=verify)
        if os.environ.get("RANK", "0") == "0":  # only one of torchrun's processes prints
            _print_end(folder, config)

    run = row.run
    assert run is not None
    presets = f"{', '.join(row.presets)}; unset: {row.default}, or the size of `init`."
    return vary(
        pretrain,
        Variant(
            types={"config": Annotated[run, EVERY_KEY, Parameter(consume_multiple=True)]},
            has_option=partial(_is_option, row),
            texts={"model": presets},
            defaults=defaults_of(run, model),
            build=partial(_build, row, run),
            words=() if model is None else ("--model", model),
            epilogue=_models(),
        ),
    )


def _is_option(row: Row, key: str) -> bool:
    """Return whether a key of the runs of a system is an option."""
    section, _, name = key.rpartition(".")
    return not (section == "architecture" and name in row.fixed)


def _build(row: Row, run: type[RunConfig], given: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run of a system from the keys given."""
    if row.started_from(given) is None:
        return make_run(run, given)
    from bertwright.recipes.configure import configure  # which reads the model's configuration

    return configure(run, given)


def defaults_of(run: type[RunConfig], model: str | None) -> dict[str, Any]:
    """Return the default of each key of a system's runs that has one, with the sizes of a preset
    (or, for None, of the default).
    """
    whole = make_run(run, {"data": "", "out": "", "model": model})
    flat = values.flatten(values.to_dict(whole))
    return {key: value for key, value in flat.items() if key not in ("data", "out", "model")}


def _models() -> str:
    """Return the sentence on how to show the help of a model, and the names of all models."""
    names = [f"  {', '.join(row.presets)}" for row in MODELS.values() if row.presets]
    intro = (
        "The options depend on the model: bertwright pretrain --model NAME --help-all shows the "
        "sizes and keys of NAME, one of:"
    )
    return "\n".join([intro, *names])


def _print_end(run: Path, config: RunConfig) -> None:
    """Print whether the model has learned, and the commands to run next."""
    from bertwright.data.parallel.build import writes_trees
    from bertwright.recipes.examine import verdict_of
    from bertwright.text.tokenizer.tokenizer import load_tokenizer

    folder = shlex.quote(str(run))
    answer, sentence = verdict_of(run)
    if sentence:
        say(sentence)
    ready = {"yes": "ready", "perhaps": "ready in part", "no": "not ready"}.get(answer, "trained")
    say(f"{run} is {ready}; to write its page: bertwright report {folder}")
    if answer != "no":
        row = row_of(config)
        parses = row.reads == "pairs" and writes_trees(load_tokenizer(run / "model"))
        use = 'parse --model {run} "A sentence."' if parses else row.use
        say(f"use it: bertwright {use.format(run=folder)}")


def _system_of(init: Path) -> str | None:
    """Return the system that the config.json of a folder or of a run's checkpoints names, or
    None."""
    runs = init.parent.glob("*/config.json") if init.name == "latest" else []
    for path in (init / "config.json", *init.glob("checkpoints/*/config.json"), *runs):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # `recipes.pretrain` reports what is wrong with it
            continue
        return system_name(str(content.get("model_type"))) if isinstance(content, dict) else None
    return None
