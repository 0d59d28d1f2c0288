"""The nine tasks of GLUE and its diagnostic set, as GLUE distributes them.

The tasks are from Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural
Language Understanding" (2019), table 1; the file names are those of its data and of its server.

If a folder contains MRPC as Microsoft published it, its test file is used as the dev set, because
GLUE took its own dev examples from the training file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertwright.errors import ConfigError, DataError
from bertwright.rows.open import nearest_name

Names = tuple[str, ...]


@dataclass(frozen=True)
class GlueTask:
    """A task with its files and metrics. Its folder has the name of the task."""

    name: str
    metrics: Names
    """The benchmark's metrics. The task's score is their mean; the first selects epoch and seed."""
    labels: Names = ("0", "1")
    """The labels that the server expects; empty for regression."""
    kind: str = "classification"
    train: Names = ("train.tsv",)
    """The possible names of the training file; the first that exists is used."""
    dev: Names = ("dev.tsv",)
    """The possible names of the dev file; the first that exists is used."""
    more_dev: str | None = None
    """A second dev file (MNLI's mismatched genres)."""
    columns: tuple[str, str] | None = None
    """The columns of the text and the label by number, of files without a header."""
    tests: Mapping[str, str] = field(default_factory=dict)
    """The path of each file of unlabelled examples, by the name of the file that the server
    expects; empty: only `test.tsv`.
    """

    @property
    def submitted(self) -> Mapping[str, str]:
        """The path of each test file in GLUE's folder, by the name of the file that the server
        expects.
        """
        return self.tests or {f"{self.name}.tsv": f"{self.name}/test.tsv"}


_ENTAILMENT = ("entailment", "not_entailment")
TASKS = (
    GlueTask("CoLA", ("matthews",), columns=("4", "2")),
    GlueTask("SST-2", ("accuracy",)),
    GlueTask(
        "MRPC",
        ("f1", "accuracy"),
        train=("train.tsv", "msr_paraphrase_train.txt"),
        dev=("dev.tsv", "msr_paraphrase_test.txt"),
    ),
    GlueTask("STS-B", ("pearson", "spearman"), (), "regression"),
    GlueTask("QQP", ("f1", "accuracy")),
    GlueTask(
        "MNLI",
        ("accuracy",),
        ("contradiction", "entailment", "neutral"),
        dev=("dev_matched.tsv",),
        more_dev="dev_mismatched.tsv",
        tests={
            "MNLI-m.tsv": "MNLI/test_matched.tsv",
            "MNLI-mm.tsv": "MNLI/test_mismatched.tsv",
            "AX.tsv": "diagnostic/diagnostic.tsv",
        },
    ),
    GlueTask("QNLI", ("accuracy",), _ENTAILMENT),
    GlueTask("RTE", ("accuracy",), _ENTAILMENT),
    GlueTask("WNLI", ("accuracy",)),
)
LIMITS = (0.0, 5.0)
"""The lowest and the highest score of STS-B."""
SUBMITTED: Names = tuple(name for task in TASKS for name in task.submitted)
"""The names of all files that the server expects."""


@dataclass(frozen=True)
class Found:
    """A task whose files exist."""

    task: GlueTask
    train: Path
    dev: Path
    more_dev: Path | None
    tests: tuple[tuple[str, Path], ...]
    """The name of each file to submit, and the path of the examples that it is made from."""


def find_tasks(data: Path, wanted: Sequence[str] = ()) -> tuple[list[Found], list[str]]:
    """Return the tasks whose training and dev files are in `data`, and the names of missing tasks.

    Raises:
        ConfigError: a name is not that of a GLUE task.
        DataError: there is no such folder, a wanted task is missing, or there is no task.
    """
    names = [task.name for task in TASKS]
    for name in wanted:
        if name not in names:
            raise ConfigError(f"no task {name!r} in GLUE; its tasks are {', '.join(names)}")
    if not data.is_dir():
        raise DataError(
            f"no folder {data}: expected GLUE's, with a folder for each task{nearest_name(data)}"
        )
    available: list[Found] = []
    missing: list[str] = []
    for task in TASKS:
        if wanted and task.name not in wanted:
            continue
        folder = data / task.name
        train, dev = (_first(folder, files) for files in (task.train, task.dev))
        if train is not None and dev is not None:
            more_dev = _first(folder, [task.more_dev] if task.more_dev else [])
            tests = [(name, data / file) for name, file in task.submitted.items()]
            existing = tuple((name, path) for name, path in tests if path.is_file())
            available.append(Found(task, train, dev, more_dev, existing))
        elif wanted:
            raise DataError(
                f"{data} lacks {task.name}: expected {task.name}/{task.train[0]} and "
                f"{task.name}/{task.dev[0]}"
            )
        else:
            missing.append(task.name)
    if not available:
        raise DataError(
            f"{data} holds no task of GLUE; expected folders such as CoLA and SST-2, each with "
            "train.tsv and dev.tsv"
        )
    return available, missing


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)
