"""Examine what the model of a pre-training run has learned, for the run's page.

`recipes/learned` computes the results, which are stored in `examples.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file
from bertwright.checkpoint.find import find_checkpoint
from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.data.shards import open_shards
from bertwright.errors import BertwrightError
from bertwright.models.catalogue import system_name, system_of_model, trainable
from bertwright.recipes.learned.catalogue import page_of
from bertwright.recipes.learned.run import FinishedRun
from bertwright.recipes.run_folder import CONFIG, read_saved
from bertwright.report.read import read_run
from bertwright.report.verdict import Verdict
from bertwright.train.log import METRICS, read_records


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


def open_run(run: Path, names: Sequence[tuple[str, str]] | None = None) -> FinishedRun:
    """Open the configuration, the text and the log of a pre-training run.

    Args:
        run: the folder of the run.
        names: a name and a group for each document; None: documents have numbers.

    Raises:
        ConfigError, DataError, IntegrityError: a file is missing or damaged.
    """
    config = read_run_config(run)
    shards = open_shards(config.data, verify=False)
    return FinishedRun(run, config, shards, read_records(run / METRICS), names)


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
    finished = open_run(run, names)
    page = page_of(finished)
    if page.reads_held_out and not finished.last:
        return
    if written.examples.get("step") == finished.step:
        return
    verdict = page.verdict(finished)._asdict()
    content = page.examine(finished)
    write_json(run / "examples.json", {"step": finished.step, "verdict": verdict, **content})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    with atomic_file(path, overwrite=True) as file:
        file.write(json.dumps(content, indent=1, default=float) + "\n")


def verdict_of(run: Path) -> Verdict:
    """Return the verdict on whether a run has learned.

    It is `unknown`, with the reason, if files of the run or its data cannot be read.
    """
    try:
        finished = open_run(run)
        return page_of(finished).verdict(finished)
    except (BertwrightError, OSError) as error:  # files were removed; the run itself is complete
        return Verdict("unknown", f"Whether it has learned is not known: {error}")
