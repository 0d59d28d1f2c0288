"""Examine what the model of a pre-training run has learned, for the run's page.

`recipes/learned` computes the results, which are stored in `examples.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file
from bertwright.checkpoint.find import find_checkpoint
from bertwright.config import values
from bertwright.config.run import RunConfig, StepRun
from bertwright.data.instances import Instances
from bertwright.data.shards import Shards, open_shards, read_shards_manifest
from bertwright.errors import BertwrightError, ConfigError
from bertwright.models.catalogue import MODELS, system_name, system_of_model, trainable
from bertwright.models.load import system_of
from bertwright.recipes.learned.catalogue import page_of
from bertwright.recipes.learned.run import FinishedRun
from bertwright.recipes.run_folder import CONFIG, read_saved
from bertwright.report.read import METRICS, read_run
from bertwright.report.verdict import Verdict
from bertwright.train.log import read_records


def read_run_config(run: Path) -> RunConfig:
    """Return the configuration of a pre-training run, as an instance of its system's class.

    Raises:
        ConfigError, DataError: there is no configuration, or it is damaged.
    """
    content = values.read_toml(run / CONFIG)
    name = None
    if content.get("model") is None and content.get("init") is not None:
        model = json.loads((find_checkpoint(run) / "config.json").read_text(encoding="utf-8"))
        name = system_name(model.get("model_type"))
    cls = trainable()[name if name in trainable() else system_of_model(content.get("model"))]
    return read_saved(run, cls)


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
    return run(data=str(folder), out="", model=model, **keys)


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


def write_findings(run: Path, names: Sequence[tuple[str, str]] | None = None) -> None:
    """Write `examples.json` if it does not exist yet, or if the model is newer.

    Nothing is written if the data of the run no longer exist, or if its page needs held-out text
    but the run has none.

    Args:
        run: the folder of the run.
        names: a name and a group for each document; None: documents have numbers.

    Raises:
        DataError, IntegrityError: shards or checkpoints are damaged.
    """
    written = read_run(run)
    data = written.config.get("data")
    if not isinstance(data, str) or not Path(data).is_dir():
        return
    config, shards = read_run_config(run), open_shards(data, False)
    finished = FinishedRun(run, config, shards, written.records, names)
    page = page_of(finished)
    if page.reads_held_out and not finished.last:
        return
    if written.examples.get("step") == finished.step:
        return
    answer, sentence = page.verdict(finished)
    verdict = {"answer": answer, "sentence": sentence}
    content = page.examine(finished)
    write_json(run / "examples.json", {"step": finished.step, "verdict": verdict, **content})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    with atomic_file(path, overwrite=True) as file:
        file.write(json.dumps(content, indent=1, default=float) + "\n")


def verdict_of(run: Path, config: RunConfig) -> Verdict:
    """Return the verdict on whether a run has learned.

    It is `unknown`, with the reason, if files of the run or its data cannot be read.
    """
    try:
        records = read_records(run / METRICS)
        shards = open_shards(config.data, False)
        finished = FinishedRun(run, read_run_config(run), shards, records)
        return page_of(finished).verdict(finished)
    except (BertwrightError, OSError) as error:  # files were removed; the run itself is complete
        return Verdict("unknown", f"Whether it has learned is not known: {error}")
