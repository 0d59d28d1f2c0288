"""Create, resume and save a pre-training run's folder.

```
RUN/ environment.json  config.toml  metrics.jsonl  checkpoints/step-00012000/  checkpoints/latest
```
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from bertwright.atomic import (
    MANIFEST,
    atomic_file,
    atomic_folder,
    held,
    parents_made,
    refuse_existing,
    sha256_file,
    write_manifest,
)
from bertwright.checkpoint import checkpoint, find
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.config import values
from bertwright.config.run import EvaluatedRun, RunConfig
from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, IntegrityError
from bertwright.machine import processor
from bertwright.models.catalogue import make_run
from bertwright.nn.objective import Learner
from bertwright.report.card import checkpoint_card
from bertwright.text.scripts import is_word
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware
from bertwright.train.log import METRICS, read_records
from bertwright.train.optim import Optimizers
from bertwright.train.state import Position, encode_state
from bertwright.version import __version__

R = TypeVar("R", bound=RunConfig)
CONFIG, ENVIRONMENT = "config.toml", "environment.json"
_FREE_KEYS = ("log.", "checkpoint.", "parallel", "architecture.vocab_size")
"""The keys that may differ when a run is resumed; the size of the vocabulary is that of the data,
which are compared.
"""
_SCRATCH = (".cooccurrences-*", ".ngrams-*", ".features-*")
"""Temporary folders that a run creates and removes at its end."""


class Beginning(NamedTuple):
    """The state that a resumed run continues from."""

    opened: Opened
    """The newest intact checkpoint."""
    damaged: list[str]
    """The names of newer checkpoints, which are damaged."""
    precision: str
    """The precision of matrix products that the run began with."""


def is_begun(run: Path) -> bool:
    """Return whether there is a run to resume."""
    return (run / CONFIG).is_file()


@contextlib.contextmanager
def alone(run: Path) -> Iterator[None]:
    """Lock a run's folder against other processes while the block runs.

    The lock is also released if the process is killed. The folder is created, and removed again if
    it is empty at the end. If the block fails, the same holds for the folders above it.

    Raises:
        ConfigError: another process is training there, or the path is not a folder.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(parents_made(run))
            run.mkdir(exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ConfigError(f"{run} cannot be a folder: choose another --out") from error
        try:
            with held(run, "training into"):
                yield
        finally:
            with contextlib.suppress(OSError):  # not empty
                run.rmdir()


def refuse_other_folder(run: Path, overwrite: bool, resumes: bool = False) -> None:
    """Raise ConfigError if `run` holds something that must not be replaced. Only runs are replaced.

    `resumes` says that the verb has `--resume`, which the message then offers.
    """
    names = {place.name for place in run.iterdir()} if run.is_dir() else set()
    if names and not {CONFIG, ENVIRONMENT} <= names and not is_beginning(run):
        raise ConfigError(
            f"{run} holds something and is no run ({CONFIG} and {ENVIRONMENT} are not both there); "
            "only runs are replaced: choose another --out"
        )
    if resumes and {CONFIG, ENVIRONMENT} <= names and not overwrite:
        raise ConfigError(
            f"{run} holds a run already: --resume goes on with it, --overwrite replaces it; or "
            "choose another --out"
        )
    refuse_existing(run, overwrite and run.is_dir())


def is_beginning(run: Path) -> bool:
    """Return whether a folder holds only files that an interrupted `begin` leaves behind."""
    return run.is_dir() and all(
        re.fullmatch(rf"{ENVIRONMENT}|\.({ENVIRONMENT}|{CONFIG})\.(partial-\d+|lock)", place.name)
        for place in run.iterdir()
    )


def environment(hardware: Hardware) -> dict[str, Any]:
    """Return a description of the software and hardware of a run."""
    ranks = hardware.ranks
    gpu = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else None
    return {
        "bertwright": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(terse=True),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "world_size": ranks.world_size,
        "precision": hardware.precision,
        "peak_gflops": round(hardware.peak / 1e9, 1),
    }


def begin(run: Path, environment: dict[str, Any], config: Any) -> None:
    """Create the run's folder completely or not at all, and remove its previous content.

    The caller must have checked that the content may be removed.
    """
    run.mkdir(parents=True, exist_ok=True)
    _empty(run)
    try:
        with atomic_file(run / ENVIRONMENT) as file:
            file.write(json.dumps(environment, indent=1) + "\n")
        with atomic_file(run / CONFIG) as file:
            file.write(values.to_toml(config))
    except BaseException:
        _empty(run)
        with contextlib.suppress(OSError):  # a mount point, or our working directory
            run.rmdir()
        raise


def _empty(run: Path) -> None:
    """Remove the content of a folder, but not the folder itself, which may be a mount point."""
    for place in run.iterdir():
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()


def recover(run: Path) -> None:
    """Remove incomplete files of a killed process, and restore a checkpoint it was replacing."""
    folder = run / find.CHECKPOINTS
    for old in folder.glob(".step-*.old-*"):
        replaced = folder / old.name[1:].partition(".old-")[0]
        if replaced.exists():
            shutil.rmtree(old)
        else:  # killed between the two renames of a replacement
            old.rename(replaced)
    for pattern in (".*.partial-*", ".*.lock"):
        for partial in folder.glob(pattern):
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink()
    for pattern in _SCRATCH:
        for scratch in run.glob(pattern):
            shutil.rmtree(scratch, ignore_errors=True)


def mend_latest(run: Path, folder: Path) -> None:
    """Make `latest` and `model` refer to `folder`, the newest intact checkpoint.

    They may refer to another checkpoint if the process was killed after saving, or if a newer
    checkpoint is damaged.
    """
    latest, model = run / find.CHECKPOINTS / find.LATEST, run / find.MODEL
    named = latest.read_text(encoding="utf-8").strip() if latest.is_file() else ""
    if named != folder.name or Path(os.path.realpath(model)).name != folder.name:
        find.write_latest(run, folder.name)


def read_saved(run: Path, cls: type[R]) -> R:
    """Return the configuration that a run began with."""
    return make_run(cls, values.read_toml(run / CONFIG), str(run / CONFIG))


def with_choices_of(run: Path, config: RunConfig) -> RunConfig:
    """Return the configuration with what the existing run chose at its beginning: its rule for
    holding out text, and the architecture of the model that it started from.

    What the configuration names itself is kept.
    """
    saved = read_saved(run, type(config))
    if (
        isinstance(config, EvaluatedRun)
        and isinstance(saved, EvaluatedRun)
        and config.validation.hold_out is None
    ):
        rule = saved.validation.hold_out
        config = replace(config, validation=replace(config.validation, hold_out=rule))
    if config.sized_by is not None and config.architecture is None:
        config = replace(config, architecture=saved.architecture)
    return config


def check_same(config: RunConfig, run: Path, shards: Shards) -> Beginning | None:
    """Check that a run can be resumed, and return the checkpoint to continue from.

    The result is None if no checkpoint was written yet.

    Raises:
        ConfigError: the existing run has another configuration; the message names the differing
            keys.
        IntegrityError: the data were built again, or every checkpoint is damaged.
    """
    saved = read_saved(run, type(config))
    environment = _read_environment(run)
    same_data = environment.get("data_sha256") == sha256_file(shards.folder / MANIFEST)
    differing = [
        key
        for key in values.differing_keys(saved, config)
        if key != "out" and not key.startswith(_FREE_KEYS) and not (key == "data" and same_data)
    ]
    if differing:
        was, now = (values.flatten(values.to_dict(each)) for each in (saved, config))
        changes = ", ".join(f"{k} (was {was.get(k)}, now {now.get(k)})" for k in differing)
        raise ConfigError(
            f"{run} was begun with another configuration: {changes}. Pass the same values, or "
            f"begin a new run with --init {run} --out ELSEWHERE"
        )
    if not same_data:
        raise IntegrityError(
            f"{config.data} is not what {run} was begun with (its manifest differs): bring the old "
            f"data back, or begin a new run with --init {run} --out ELSEWHERE"
        )
    checkpoints = find.list_checkpoints(run)
    if not checkpoints:
        return None
    opened = open_model(run)
    damaged = [each.name for each in checkpoints[checkpoints.index(opened.folder) + 1 :]]
    return Beginning(opened, damaged, environment.get("precision", "auto"))


def save(
    config: RunConfig,
    run: Path,
    learner: Learner,
    optimizers: Optimizers,
    shards: Shards,
    position: Position,
    ranks: Ranks,
    trained_length: int | None = None,
) -> None:
    """Write a checkpoint, make `latest` refer to it, and remove the oldest checkpoints.

    Every rank must call this function.
    """
    weights = ranks.gather(learner.state_dict())
    files = encode_state(position, learner, optimizers, ranks)
    if ranks.is_first:
        folder = run / find.CHECKPOINTS / f"step-{position.step:08d}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder, overwrite=True) as partial:
            card = _card(config, run, list(learner.objectives), shards, position)
            tokenizer = shards.tokenizer_folder
            checkpoint.save(
                partial, learner, tokenizer, card, files, weights, trained_length=trained_length
            )
            write_manifest(partial, {"format": 1, "step": position.step})
        find.write_latest(run, folder.name)
        checkpoints = find.list_checkpoints(run)
        # Newer checkpoints are damaged and were skipped; they do not count toward `keep`.
        for old in checkpoints[: checkpoints.index(folder) + 1][: -config.checkpoint.keep]:
            # On a network disk, files that another process has open may remain; the next save
            # tries to remove them again.
            shutil.rmtree(old, ignore_errors=True)
    ranks.wait()


def _card(
    config: RunConfig, run: Path, objectives: list[str], shards: Shards, position: Position
) -> str:
    counts = shards.manifest["counts"]
    corpus = {name: counts[name] for name in ("documents", "sentences", "tokens")}
    files = [Path(name).name for name in shards.manifest["inputs"]]
    corpus |= {"vocab_size": shards.vocab_size, "files": files[:5] + ["..."] * (len(files) > 5)}
    metrics = run / METRICS
    records = read_records(metrics) if metrics.is_file() else []
    last = next((r for r in reversed(records) if r.get("split") == "dev"), None)
    example = _example(shards, "masked_lm" in objectives)
    return checkpoint_card(config, position, objectives, corpus, last, example)


def _example(shards: Shards, masked: bool) -> tuple[str, str]:
    """Return an example sentence of the corpus, always the same, and the word that it masks.

    If `masked`, the longest word is masked; otherwise the word is empty. Both are empty if no
    sentence is suitable.
    """
    lengths = np.diff(shards.sentence_tokens)
    fitting = np.flatnonzero((lengths >= 9) & (lengths <= 25))
    if not len(fitting):
        return "", ""
    number = int(fitting[len(fitting) // 2])
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    start, stop = shards.sentence_tokens[number : number + 2].tolist()
    ids = shards.tokens(start, stop).tolist()
    if not masked:
        return tokenizer.readable(ids), ""
    tokens, whole = tokenizer.tokens_of(ids), [*shards.word_starts(start, stop).tolist(), True]
    words = [n for n, t in enumerate(tokens) if is_word(t) and whole[n] and whole[n + 1]]
    if not words:
        return "", ""
    at = max(words, key=lambda n: len(tokens[n]))
    ids[at] = tokenizer.mask_id
    return tokenizer.readable(ids), tokens[at]


def last_good(run: Path, step: int) -> Path | None:
    """Return the newest checkpoint that was not written after `step`, or None."""
    good = [f for f in find.list_checkpoints(run) if int(f.name[len("step-") :]) <= step]
    return good[-1] if good else None


def _read_environment(run: Path) -> dict[str, Any]:
    path = run / ENVIRONMENT
    try:
        environment: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"{path} cannot be read ({error}); begin a new run with --init {run} --out ELSEWHERE"
        ) from error
    return environment
