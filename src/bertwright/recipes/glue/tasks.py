"""The nine tasks of GLUE and its diagnostic set, as GLUE distributes them.

Source: Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding" (2019), table 1; file names of its data, and of what its server takes.

Where a folder holds MRPC as Microsoft published it, its test file is the dev set: GLUE took its dev
examples from the training file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bertwright.config.task import Kind
from bertwright.errors import ConfigError, DataError

Names = tuple[str, ...]
_TRAIN, _DEV, _TEST = ("train.tsv",), ("dev.tsv",), ("test.tsv",)


class Test(NamedTuple):
    """Examples without labels, and the file that the server wants for them."""

    submitted: str
    files: Names
    folders: Names = ()
    """Where they are; empty: in the task's own folder."""


@dataclass(frozen=True)
class GlueTask:
    """One task: where its files are, and its metrics."""

    name: str
    metrics: Names
    """The benchmark's; the task's score is their mean, the first selects epoch and seed."""
    folders: Names
    labels: Names = ("0", "1")
    """The words that the server takes; none for regression."""
    kind: Kind = "classification"
    train: Names = _TRAIN
    dev: Names = _DEV
    more_dev: Names = ()
    """A second dev file (MNLI's mismatched genres)."""
    tests: tuple[Test, ...] = ()


_ENTAILMENT = ("entailment", "not_entailment")
_DIAGNOSTIC = Test(
    "AX.tsv", ("diagnostic.tsv", "AX.tsv", "ax.tsv", "test.tsv"), ("diagnostic", "AX", "ax")
)
TASKS = (
    GlueTask("CoLA", ("matthews",), ("CoLA",), tests=(Test("CoLA.tsv", _TEST),)),
    GlueTask("SST-2", ("accuracy",), ("SST-2", "SST2", "SST"), tests=(Test("SST-2.tsv", _TEST),)),
    GlueTask(
        "MRPC",
        ("f1", "accuracy"),
        ("MRPC",),
        train=("train.tsv", "msr_paraphrase_train.txt"),
        dev=("dev.tsv", "msr_paraphrase_test.txt"),
        tests=(Test("MRPC.tsv", _TEST),),
    ),
    GlueTask(
        "STS-B",
        ("pearson", "spearman"),
        ("STS-B", "STSB", "STS"),
        labels=(),
        kind="regression",
        tests=(Test("STS-B.tsv", _TEST),),
    ),
    GlueTask("QQP", ("f1", "accuracy"), ("QQP",), tests=(Test("QQP.tsv", _TEST),)),
    GlueTask(
        "MNLI",
        ("accuracy",),
        ("MNLI",),
        labels=("contradiction", "entailment", "neutral"),
        dev=("dev_matched.tsv", "dev.tsv"),
        more_dev=("dev_mismatched.tsv",),
        tests=(
            Test("MNLI-m.tsv", ("test_matched.tsv",)),
            Test("MNLI-mm.tsv", ("test_mismatched.tsv",)),
            _DIAGNOSTIC,
        ),
    ),
    GlueTask("QNLI", ("accuracy",), ("QNLI",), _ENTAILMENT, tests=(Test("QNLI.tsv", _TEST),)),
    GlueTask("RTE", ("accuracy",), ("RTE",), _ENTAILMENT, tests=(Test("RTE.tsv", _TEST),)),
    GlueTask("WNLI", ("accuracy",), ("WNLI",), tests=(Test("WNLI.tsv", _TEST),)),
)
LIMITS = (0.0, 5.0)
"""Of STS-B's scores."""
SUBMITTED: Names = tuple(test.submitted for task in TASKS for test in task.tests)
"""All files that the server wants."""


@dataclass(frozen=True)
class Found:
    """A task whose files are there."""

    task: GlueTask
    train: Path
    dev: Path
    more_dev: Path | None
    tests: tuple[tuple[str, Path], ...]
    """File to submit, and the file it is made from."""


def find_tasks(data: Path, wanted: Sequence[str] = ()) -> tuple[list[Found], list[str]]:
    """The tasks whose training and dev files are in `data`, and the names of the others.

    Raises:
        ConfigError: a name that is no task of GLUE.
        DataError: no such folder, a wanted task is not there, or there is none.
    """
    by_name = {task.name.lower().replace("-", ""): task for task in TASKS}
    keys = [name.lower().replace("-", "") for name in wanted]
    for name, key in zip(wanted, keys, strict=True):
        if key not in by_name:
            there = ", ".join(task.name for task in TASKS)
            raise ConfigError(f"no task {name!r} in GLUE; its tasks are {there}")
    if not data.is_dir():
        raise DataError(f"no folder {data}; expected GLUE's, with a folder a task")
    found: list[Found] = []
    missing: list[str] = []
    for key, task in by_name.items():
        if keys and key not in keys:
            continue
        folder = next((data / each for each in task.folders if (data / each).is_dir()), None)
        train = _first(folder, task.train)
        dev = _first(folder, task.dev)
        if train is not None and dev is not None:
            more_dev = _first(folder, task.more_dev)
            found.append(Found(task, train, dev, more_dev, _tests(data, folder, task)))
        elif keys:
            raise DataError(
                f"{data} lacks {task.name}: expected {task.folders[0]}/{task.train[0]} and "
                f"{task.folders[0]}/{task.dev[0]}"
            )
        else:
            missing.append(task.name)
    if not found:
        raise DataError(
            f"{data} holds no task of GLUE; expected folders as CoLA and SST-2, each with "
            "train.tsv and dev.tsv"
        )
    return found, missing


def _tests(data: Path, folder: Path | None, task: GlueTask) -> tuple[tuple[str, Path], ...]:
    places = []
    for test in task.tests:
        folders = [data / each for each in test.folders] if test.folders else [folder]
        paths = [path for each in folders if (path := _first(each, test.files)) is not None]
        places += [(test.submitted, path) for path in paths[:1]]
    return tuple(places)


def _first(folder: Path | None, names: Names) -> Path | None:
    """The first file that is there."""
    if folder is None:
        return None
    return next((folder / name for name in names if (folder / name).is_file()), None)
