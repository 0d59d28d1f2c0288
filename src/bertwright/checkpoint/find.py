"""Find the model that a path refers to: a folder, a run's newest whole checkpoint, or a model of
the Hugging Face hub.

```
runs/NAME/checkpoints/
  step-00012000/   a folder of weights (`checkpoint/checkpoint.py`)
  latest           a text file: the name of the newest folder
runs/NAME/model    a link to the newest folder, for other programs
```
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertwright.atomic import verify_manifest
from bertwright.checkpoint import missing
from bertwright.checkpoint.formats.catalogue import TENSORFLOW, folder_format
from bertwright.checkpoint.huggingface import hub
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.config.hub import id_of
from bertwright.errors import DataError, IntegrityError
from bertwright.storage.model_folder import CONFIG
from bertwright.storage.tensor_bundle import find_prefix

CHECKPOINTS = missing.CHECKPOINTS
LATEST = "latest"
MODEL = "model"


class DamagedCheckpoint(UserWarning):
    """Warns that a checkpoint was skipped because its files differ from its manifest."""


@dataclass(frozen=True)
class Place:
    """The place of a model's weights, and what was checked to choose it."""

    source: Path
    """The folder of the weights, or the name of a TensorFlow checkpoint without `.index`."""
    damages: Mapping[str, str] = field(default_factory=dict)
    """The damage of each newer checkpoint of the same run, by the checkpoint's name."""
    verified: Mapping[str, Any] | None = None
    """The files of the folder's manifest, if all of them were compared with it."""

    @property
    def folder(self) -> Path:
        """The folder of the weights."""
        return folder_of(self.source)


def find_checkpoint(path: str | Path) -> Path:
    """Return the source that a path refers to; see `find_place`."""
    return find_place(path).source


def find_place(path: str | Path) -> Place:
    """Return the place of the weights that a path refers to; see `look_up_place`.

    A `DamagedCheckpoint` warning is given for each newer checkpoint that is skipped as damaged.
    """
    place = look_up_place(path)
    for damage in place.damages.values():
        message = f"{damage}. {place.source.name} is used, the newest that is whole"
        warnings.warn(DamagedCheckpoint(message), stacklevel=2)
    return place


def look_up_place(path: str | Path) -> Place:
    """Return the place of the weights that a path refers to.

    A folder with a `config.json` or with a TensorFlow checkpoint refers to itself, as does the name
    of such a checkpoint. A run, its `model`, its `checkpoints` and its `checkpoints/latest` refer
    to the newest checkpoint whose manifest verifies. The folder of a quickstart refers to its run.
    `hf:ORG/NAME` is fetched from the Hugging Face hub (`huggingface/hub.py`); no other path
    accesses the hub.

    Raises:
        DataError: there is nothing to load, or the run has no checkpoint yet.
    """
    path = Path(path)
    if path.name == LATEST and not path.is_dir():
        path = path.parent
    if path.name == MODEL and path.is_symlink() and (path.parent / CHECKPOINTS).is_dir():
        path = path.parent
    if (source := source_at(path)) is not None:
        return Place(source)
    runs = [path.parent] if path.name == CHECKPOINTS else []
    for run in (*runs, path, path / "run"):
        if (run / CHECKPOINTS).is_dir():
            return _newest_verified(run)
    if path.is_dir():
        raise missing.no_model(path)
    if id_of(path) is not None and (source := source_at(hub.fetch(path))) is not None:
        return Place(source)
    raise missing.no_model(path)


def folder_of(source: Path) -> Path:
    """Return the folder of a source, which may be the name of a TensorFlow checkpoint."""
    return source if source.is_dir() else source.parent


def source_at(path: Path) -> Path | None:
    """Return the source at a path; None if the path is not a source itself (it may be a run)."""
    if path.is_dir():
        plain = (path / CONFIG).is_file() or sentence_transformers.is_one(path)
        return path if plain or TENSORFLOW.recognize(path) else None
    prefix = find_prefix(path)
    if prefix is None:
        return None
    alone = len(list(prefix.parent.glob("*.index"))) == 1
    return prefix.parent if alone and folder_format(prefix.parent) is TENSORFLOW else prefix


def _newest_verified(run: Path) -> Place:
    """Return the newest checkpoint of a run whose manifest verifies."""
    damages: dict[str, str] = {}
    for folder in reversed(list_checkpoints(run)):
        try:
            manifest = verify_manifest(folder)
        except IntegrityError as error:
            damages[folder.name] = str(error)
            continue
        return Place(folder, damages, manifest["files"])
    if damages:
        raise IntegrityError(f"{run} has no whole checkpoint: {'; '.join(damages.values())}")
    raise DataError(f"{run} has no checkpoint yet")


def list_checkpoints(run: Path) -> list[Path]:
    """Return the `step-N` folders of a run, oldest first."""
    numbered = [
        (int(number[1]), folder)
        for folder in (run / CHECKPOINTS).glob("step-*")
        if (number := re.fullmatch(r"step-(\d+)", folder.name)) and folder.is_dir()
    ]
    return [folder for _, folder in sorted(numbered)]


def write_latest(run: Path, name: str) -> None:
    """Write the name of a checkpoint to `checkpoints/latest`, and link `model` to the checkpoint.

    Each is replaced by a rename. On a disk without symbolic links, no `model` is written.
    """
    latest = run / CHECKPOINTS / LATEST
    partial = latest.with_name(f".{LATEST}.partial-{os.getpid()}")
    try:
        partial.write_text(name + "\n", encoding="utf-8")
        partial.replace(latest)
        with contextlib.suppress(OSError):
            partial.symlink_to(Path(CHECKPOINTS, name), target_is_directory=True)
            partial.replace(run / MODEL)
    finally:
        partial.unlink(missing_ok=True)
