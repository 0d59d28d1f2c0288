"""The error for a path that is no model, which a verb raises before it imports torch."""

from __future__ import annotations

from pathlib import Path

from bertwright.config.hub import id_of
from bertwright.errors import DataError
from bertwright.models.catalogue import MODELS
from bertwright.rows.open import no_folder

CHECKPOINTS = "checkpoints"
"""The folder of a run's checkpoints."""


def refuse_missing_model(*paths: str | Path) -> None:
    """Raise DataError for a path at which there is nothing, or a file or folder that cannot be a
    model; `hf:ORG/NAME` is not looked up.
    """
    for path in map(Path, paths):
        index = path.parent / f"{path.name.removesuffix('.index')}.index"
        is_checkpoint = index.is_file()
        is_link = path.parent.is_dir() and path.name == "latest"
        if not (path.is_dir() or id_of(path) is not None or is_checkpoint or is_link):
            raise no_model(path)
        inside = {each.name for each in path.iterdir()} if path.is_dir() else {CHECKPOINTS}
        is_run = {CHECKPOINTS, "run"} & {*inside, path.name}
        if not is_run and not any(name.endswith((".json", ".index")) for name in inside):
            raise no_model(path)


def no_model(path: Path) -> DataError:
    """Return the error for a path that is not the folder of a model."""
    if path.is_dir():
        return DataError(
            f"{path} holds neither config.json nor {CHECKPOINTS}/: give the folder of a run, a "
            "checkpoint, a Hugging Face model or a TensorFlow BERT"
        )
    expected = "the folder of a run, a checkpoint or a model"
    if path.is_file():
        return DataError(
            f"{path} is a file; expected {expected}. A file of word vectors or of n-grams becomes "
            f"one by: bertwright convert {path} OUT"
        )
    command = f"bertwright pretrain --data SHARDS --out {path}"
    if any(str(path) in row.presets for row in MODELS.values()):  # a size, and no model yet
        command = f"bertwright pretrain --data SHARDS --model {path} --out runs/{path}"
    return no_folder(DataError, path, expected, command)
