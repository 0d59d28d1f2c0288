"""Compare an evaluation with the training file of the model's run.

`bertwright evaluate` shows simple baselines beside the figures of a model, and warns of examples
that the model was trained on. Both need the training examples. They are at hand if the model is in
its run's folder, and the training file is where it was, or is itself the file that is evaluated.
Without them, the baseline is the most frequent label, or the mean, of the evaluated file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bertwright.atomic import sha256_file
from bertwright.checkpoint.find import CHECKPOINTS
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.task import TaskConfig
from bertwright.config.values import keys_of
from bertwright.errors import BertwrightError, DataError
from bertwright.inference.files.predictions import Comparison
from bertwright.inference.model import Model
from bertwright.labelled.examples import Example
from bertwright.progress import silent
from bertwright.recipes.finetune.defaults import takes_seconds
from bertwright.recipes.finetune.setup import TaskSpec, count_shared, read_labelled, read_split
from bertwright.recipes.run_folder import ENVIRONMENT
from bertwright.report.verdict import RESULTS
from bertwright.rows.read import MemoryRows
from bertwright.storage.model_folder import read_json
from bertwright.tasks.catalogue import files_and_options, kind_of, options_of
from bertwright.tasks.evaluate import evaluate

TRAINING_FILES = "train_files"
"""The key of `environment.json` with the path and the SHA-256 of the training file of each task."""
MOST_BYTES = 100_000_000
"""The maximum size of a training file that is read, which takes a few seconds."""


class TrainingFile(NamedTuple):
    """The training file of a model's run."""

    is_evaluated: bool
    """Whether it is the file that is evaluated, or a copy of it."""
    examples: list[Example] | None
    """The examples that the model was trained on; None: they are not at hand."""
    seed: int = 0
    """The seed of the run."""


def training_files(tasks: Sequence[TaskSpec]) -> dict[str, dict[str, str | None]]:
    """Return the path and the SHA-256 (None for a folder) of the training file of each task that
    has one.
    """
    paths = {
        each.name: Path(each.files.train).absolute()
        for each in tasks
        if each.train is None and each.files.train and not each.options.has_examples
    }
    return {
        name: {"path": str(path), "sha256": sha256_file(path) if path.is_file() else None}
        for name, path in paths.items()
    }


def compare_with_training(
    model: Model,
    path: str | MemoryRows,
    main: str | None,
    name: str,
    task: TaskConfig,
    examples: list[Example],
) -> Comparison:
    """Return the baselines on evaluated examples, and warnings of those that were trained on.

    Args:
        path: the file that is evaluated, or rows in memory.
        main: the metric to put first; None: that of the kind of task.
        task: the task, with the settings of the evaluation.
        examples: the examples of the file.
    """
    evaluated = Path(path) if isinstance(path, str) and path != "-" else None
    training = _training_file(model, name, evaluated, task)
    baselines = _baselines(task, training, examples, main)
    effect = "figures on them show how well it memorizes, not how well it generalizes"
    if training.examples is None:
        same = f"{path} is the file that the model was trained on: {effect}"
        return Comparison(baselines, None, [same] if training.is_evaluated else [])
    shared = count_shared(kind_of(task.kind), training.examples, examples)
    which = f" ({path} is its training file)" if training.is_evaluated else ""
    warning = (
        f"{shared:,} of {len(examples):,} rows are also rows that the model was trained on{which}: "
        f"{effect}"
    )
    return Comparison(baselines, shared, [warning] if shared else [])


def _baselines(
    task: TaskConfig, training: TrainingFile, examples: list[Example], main: str | None
) -> dict[str, dict[str, float]]:
    """Return the metrics of the baselines that take only seconds."""
    kind, train, ending = kind_of(task.kind), training.examples, ""
    if not kind.has_baselines:
        return {}
    quick = takes_seconds(task, (*(train or ()), *examples))
    if kind.vectors:  # its baselines are not fitted
        found = kind.baselines(task, [], examples, 0, False) if quick else {}
    elif train is not None:
        found = kind.baselines(task, train, examples, training.seed, not quick)
    elif kind.scores_tokens:  # the most frequent tag of each evaluated word is no baseline
        found = {}
    else:
        found, ending = kind.baselines(task, examples, examples, 0, True), "_of_file"
    return {
        baseline + ending: evaluate(
            task, examples, predictions, main=main, intervals=False, worst=0
        ).metrics
        for baseline, predictions in found.items()
    }


def _training_file(
    model: Model, name: str, evaluated: Path | None, task: TaskConfig
) -> TrainingFile:
    """Return the training file of a task of the model's run, as far as it is at hand."""
    unknown = TrainingFile(False, None)
    if model.folder is None or model.folder.parent.name != CHECKPOINTS:
        return unknown
    run = model.folder.parent.parent
    try:
        results, environment = read_json(run / RESULTS), read_json(run / ENVIRONMENT)
    except DataError:
        return unknown
    results = results.get("tasks", {}).get(name, results)
    if name not in environment.get(TRAINING_FILES, {}) or "settings" not in results:
        return unknown  # trained on rows in memory, or on texts without labels
    settings, recorded = results["settings"], environment[TRAINING_FILES][name]
    checksum = recorded["sha256"]
    known = (*keys_of(TaskFilesConfig), *options_of(task.kind))
    given = {key: settings[key] for key in known if key in settings}
    files, options = files_and_options(task.kind, given)
    place = Path(recorded["path"])
    if not place.exists():  # the folder in which the run was started was moved
        place = Path(files.train)
    is_evaluated = evaluated is not None and _is_same(evaluated, place, checksum)
    if is_evaluated and evaluated is not None:
        place = evaluated
    elif _size(place) > MOST_BYTES or not _is_same(place, place, checksum):
        return unknown
    if _size(place) > MOST_BYTES:
        return TrainingFile(is_evaluated, None)
    files, seed = replace(files, train=str(place)), settings["seed"]
    kind = kind_of(task.kind)
    try:
        if files.dev is None:
            by_folds = "folds" in results.get("data", {}).get("dev", {})
            examples = read_split(kind, files, options, seed, silent, by_folds=by_folds).train
        else:
            examples = read_labelled(files.train, kind, files, options, silent).of_part("train")
    except BertwrightError:  # for example, a package that its format needs is gone
        return TrainingFile(is_evaluated, None)
    return TrainingFile(is_evaluated, examples, seed)


def _is_same(path: Path, train: Path, checksum: str | None) -> bool:
    """Return whether a path has the content of the training file; a folder is known by its path."""
    if checksum is None:
        return path.is_dir() and train.is_dir() and path.samefile(train)
    return path.is_file() and sha256_file(path) == checksum


def _size(path: Path) -> int:
    """Return the number of bytes of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files if each.is_file())
