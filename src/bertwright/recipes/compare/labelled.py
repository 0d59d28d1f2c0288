"""The labelled task of a comparison: its files are read and split once, before anything is trained.

Every fit and every baseline has the same training, dev and test examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertwright.atomic import sha256_file
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.task import TaskConfig, TaskOptions
from bertwright.errors import ConfigError
from bertwright.labelled.examples import Example
from bertwright.recipes.finetune.setup import Split, read_labelled, read_split
from bertwright.report.comparison.rows import Way
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import check_main, metrics_of


@dataclass(frozen=True)
class Task:
    """A labelled task."""

    kind: str
    files: TaskFilesConfig
    options: TaskOptions
    test: str | None = None
    """The labelled file that is evaluated once, at the end."""


@dataclass(frozen=True)
class Labelled:
    """The examples of a task, read before anything is trained."""

    task: Task
    split: Split
    """The training and dev examples, which are the same for all seeds, fits and baselines."""
    test: list[Example] | None
    config: TaskConfig
    """The task as its model would store it, with the keys that metrics need."""
    metric: str
    """The metric that is compared."""
    key: Any
    """Everything that results depend on: the settings, and the hashes of the files."""

    @property
    def train(self) -> list[Example]:
        """The training examples."""
        return self.split.train

    @property
    def dev(self) -> list[Example]:
        """The dev examples."""
        return self.split.dev

    @property
    def evaluated(self) -> list[Example]:
        """The examples that results are computed on: test, or dev if there is no test file."""
        return self.dev if self.test is None else self.test

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways to use a system for this kind of task."""
        if kind_of(self.task.kind).generates:
            return ("tuned", "random")
        return ("frozen", "tuned", "random")

    def count(self, fraction: float) -> int:
        """Return the number of training examples of a fraction."""
        return max(1, round(fraction * len(self.train)))


def read_task(task: Task, config: CompareConfig, say: Callable[[str], None]) -> Labelled:
    """Read the files of a task.

    Raises:
        DataError: a file cannot be read, or has only one label or too few examples.
        ConfigError: there is no training file, the task does not have the metric, or test and dev
            have no metric in common.
    """
    kind, files, options = kind_of(task.kind), task.files, task.options
    if not files.train:
        raise ConfigError("the task of a comparison needs --train, a labelled file")
    kind.check_packages(options)
    split = read_split(kind, files, options, config.seed, say)
    read, labels = split.read, split.labels
    test = None
    if task.test is not None:
        as_train = replace(files, dev_text=None, dev_text2=None, dev_label=None)
        test_read = read_labelled(task.test, kind, as_train, options, say, read, labels)
        test = test_read.of_part("test", "dev")
    made: TaskConfig = kind.make_task(options, read, split.train, labels=labels)
    made = kind.evaluated(made, split.dev)
    names = metrics_of(made)
    if test is not None and metrics_of(kind.evaluated(made, test)) != names:
        raise ConfigError(
            f"{task.test} has other labels than the dev examples, so that they have no metric in "
            f"common: {', '.join(names)} of dev"
        )
    if files.metric is not None:
        check_main(names, files.metric)
    paths = {"train": files.train, "dev": files.dev, "test": task.test}
    contents = {
        name: sha256_file(Path(path)) if Path(path).is_file() else path
        for name, path in paths.items()
        if path is not None
    }
    settings = {k: v for k, v in values.to_dict(files).items() if k not in paths}
    settings |= values.to_dict(options)
    return Labelled(
        task=task,
        split=split,
        test=test,
        config=made,
        metric=files.metric or names[0],
        key={"kind": task.kind, "files": contents, "settings": settings},
    )
