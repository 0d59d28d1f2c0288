"""The configuration of a run from the keys that are given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from bertwright.checkpoint.opened import open_model
from bertwright.config import values
from bertwright.config.run import RunConfig, StepRun
from bertwright.data.instances import Instances
from bertwright.data.shards import Shards, read_shards_manifest
from bertwright.errors import ConfigError, DataError
from bertwright.models.catalogue import (
    MODELS,
    completed,
    make_run,
    row_of,
    system_of_model,
    trainable,
)
from bertwright.models.load import system_of
from bertwright.models.system import require_preset
from bertwright.recipes.run_folder import is_begun, read_saved

R = TypeVar("R", bound=RunConfig)


def configure(run: type[R], given: Mapping[str, Any], where: str = "") -> R:
    """Return the configuration of a run from the keys given.

    The keys of `architecture` replace those of the model that the run starts from, or else of the
    preset that it names.

    Args:
        run: the class of the run.
        given: values by key.
        where: the source for messages, such as a file name.

    Raises:
        ConfigError: a key or a value is wrong.
    """
    row, keys = row_of(run), given.get("architecture")
    start = row.started_from(given)
    if start is None or not isinstance(keys, Mapping):
        return make_run(run, given, where)
    if vars(row.preset(None)).keys() - keys.keys():  # a saved configuration has them all
        base = values.to_dict(_architecture_of(run, given, start))
        given = values.merge({"architecture": base}, given)
    return make_run(run, given, where)


def _architecture_of(run: type[RunConfig], given: Mapping[str, Any], start: str) -> Any:
    """Return the architecture of the model that a run starts from, with the settings of the run.

    If that model is gone, it is that of the run in `out` which started from it. For a model from
    which the run cannot start, which the recipe refuses, it is that of a preset.

    Raises:
        ConfigError: the run also names a preset that has other sizes than the model.
    """
    row = row_of(run)
    try:
        opened = open_model(start)
        found = opened.config
    except DataError:
        return _saved_architecture(run, given, start) or row.preset(None)
    if opened.system.row.name not in (row.name, *row.encoders):
        return row.preset(None)
    require_preset(row, given.get("model"), found, opened.folder, given["architecture"])
    return replace(row.config(**asdict(found)), **row.settings)


def _saved_architecture(run: type[RunConfig], given: Mapping[str, Any], start: str) -> Any:
    """Return the architecture of the run in `out`, or None if none has started from `start`."""
    out = Path(str(given.get("out")))
    if not is_begun(out):
        return None
    with contextlib.suppress(ConfigError):  # a run of another system
        saved = read_saved(out, run)
        return saved.architecture if saved.sized_by == start else None
    return None


def run_for(folder: Path, model: str | None, **keys: Any) -> RunConfig:
    """Return the configuration of a run on the shards, for inspecting its instances.

    Args:
        folder: the folder of the shards.
        model: the name of a preset; None: the default Transformer for translation pairs, the
            default GPT for a vocabulary without [MASK], and otherwise the default BERT.
        keys: keys of the run's configuration.

    Raises:
        ConfigError: there is no such model, or its configuration has no such key or value.
        DataError: there are no shards.
    """
    manifest = read_shards_manifest(folder)
    if model is None:
        masks = "mask" in manifest["tokenizer"]["special"]
        fits = "transformer" if manifest.get("parallel") else "bert" if masks else "gpt"
        model = MODELS[fits].default
    run = trainable()[system_of_model(model)]
    for key in keys.keys() - {field.name for field in fields(run)}:
        option = key.replace("_", "-")
        raise ConfigError(
            f"--{option} is set, but {model} is trained without it: bertwright pretrain --model "
            f"{model} --help-all shows its keys"
        )
    if issubclass(run, StepRun):
        keys["epochs"] = 1.0
    return completed(run(data=str(folder), out="", model=model, **keys))


def instances_of(config: RunConfig) -> Callable[[Shards], Instances[Any]] | None:
    """Return a function that makes the instances of a run's first phase.

    The result is None if the system has its own training loop.
    """
    if not isinstance(config, StepRun):
        return None
    run = config

    def instances(shards: Shards) -> Instances[Any]:
        system = system_of(run)
        return system.trained_on(system.with_hold_out(run, shards), shards)[0].instances

    return instances
