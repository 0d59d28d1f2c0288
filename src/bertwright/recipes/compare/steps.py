"""What a step of a comparison is, and the file that holds the results of finished steps.

A step is a frozen dataclass: a text or vocabulary to write, a system to pre-train with a seed, a
measurement of it, or a fit of the task. It knows everything that its result depends on (`key`),
which steps it needs, how long it takes at most, and how to describe itself. Its result is rows
(`report/comparison/rows.py`) and facts for later steps.

`steps.jsonl` has a line for each finished step. A step is done again if its key has changed. The
file is replaced atomically, so a killed process leaves no incomplete result. Results, and the files
that a step wrote beside its result, have checksums, because later steps depend on them.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file, sha256_file
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.values import plain
from bertwright.errors import IntegrityError
from bertwright.recipes.compare.labelled import Labelled
from bertwright.recipes.compare.systems import SYSTEMS, Entry
from bertwright.report.comparison.rows import Row

STEPS = "steps.jsonl"
"""The file of the finished steps."""
OVERHEAD = 15.0
"""The seconds that pre-training takes in addition to its minutes, and that a measurement takes."""


@dataclass(frozen=True)
class Done:
    """The result of a step."""

    rows: Sequence[Row] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What is no row: sizes of texts, and what later steps read."""
    files: Sequence[Path] = ()
    """The files that the step wrote and that later steps depend on."""
    notes: Sequence[str] = ()
    """Lines to print."""


class Step(ABC):
    """A part of a comparison, which is done once."""

    system: str = ""
    """The name of the system that the step is for; empty: it is for all systems."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The unique name, in `steps.jsonl`, in the log and in `--json`."""

    @property
    @abstractmethod
    def what(self) -> str:
        """A description for users."""

    def key(self, of: Comparison) -> Any:
        """Return everything that the result depends on, besides the settings of the folder
        (`Comparison.settings`), with which all steps are done.
        """
        return {}

    def needs(self, of: Comparison) -> Sequence[Step]:
        """Return the steps of the same system, or another one, that must be done before."""
        return ()

    @abstractmethod
    def seconds(self, of: Comparison) -> float:
        """Return the maximum time of the step."""

    @abstractmethod
    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        """Do the step. `say` writes a line to the log."""

    def failure(self, reason: str) -> Row | None:
        """Return the row that says why the step failed; None: it cannot fail alone."""
        return None


@dataclass(frozen=True)
class SystemStep(Step):
    """A step for one system and one seed."""

    entry: Entry
    seed: int

    part = ""
    """The last part of the name."""
    measure = ""
    """The value of `Row.measure`."""
    shown = ""
    """What is done, for users."""

    @property
    def system(self) -> str:  # type: ignore[override]
        return self.entry.name

    @property
    def name(self) -> str:
        return f"{self.entry.name}-{self.seed}/{self.part or self.measure}"

    @property
    def what(self) -> str:
        return f"{self.entry.title}: {self.shown}"

    def row(self, **figures: Any) -> Row:
        """Return a row of this step."""
        return Row(self.measure, self.entry.name, self.entry.title, self.seed, **figures)

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        """Return whether a system has this step."""
        return True

    def seconds(self, of: Comparison) -> float:
        return OVERHEAD

    def failure(self, reason: str) -> Row | None:
        return self.row(reason=reason, failed=True)


class Finished:
    """The results of finished steps, in a file of a comparison's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / STEPS
        self._lines: dict[str, dict[str, Any]] | None = None

    def find(self, step: str, key: Any) -> Done | None:
        """Return the result of a step; None if there is no result with this key.

        Raises:
            IntegrityError: the file is damaged.
        """
        line = self._read().get(step)
        if line is None or line["key"] != plain(key):
            return None
        return Done([Row(**row) for row in line["rows"]], line["facts"])

    def verify(self, step: str) -> None:
        """Compare the files that a step wrote with their checksums.

        Raises:
            IntegrityError: a file was changed or is missing.
        """
        for file, checksum in self._read().get(step, {"files": {}})["files"].items():
            path = self.folder / file
            if not path.is_file() or sha256_file(path) != checksum:
                what = "was changed" if path.is_file() else "is missing"
                raise IntegrityError(
                    f"{path} {what} since the comparison wrote it, and its results depend on it: "
                    "--overwrite begins from scratch"
                )

    def keep(self, step: str, key: Any, done: Done) -> None:
        """Write the result of a step, and the checksums of the files that it wrote."""
        files = {path.relative_to(self.folder).as_posix(): path for path in done.files}
        line = plain(
            {
                "step": step,
                "key": key,
                "rows": [asdict(row) for row in done.rows],
                "facts": done.facts,
                "files": {name: sha256_file(path) for name, path in files.items()},
            }
        )
        lines = self._read()
        lines[step] = line
        with atomic_file(self.path, overwrite=True) as file:
            for each in lines.values():
                file.write(json.dumps({**each, "sha256": _checksum(each)}, ensure_ascii=False))
                file.write("\n")

    def _read(self) -> dict[str, dict[str, Any]]:
        if self._lines is None:
            self._lines = {}
            text = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
            for number, line in enumerate(filter(None, text.split("\n")), 1):
                step, content = _checked(self.path, number, line)
                self._lines[step] = content
        return self._lines


def _checked(path: Path, number: int, text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of a line of the file, whose checksum must be right."""
    try:
        line = json.loads(text)
        if line.pop("sha256") != _checksum(line):
            raise ValueError("its content has another checksum")
        return str(line["step"]), dict(line)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"line {number} of {path} is damaged ({error}); remove the line, and the same command "
            "does this part again"
        ) from error


def _checksum(line: Any) -> str:
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """What the steps of a comparison read."""

    inputs: Sequence[str]
    config: CompareConfig
    reading: CorpusConfig
    most_held_out: int | None
    """The maximum number of characters to hold out; None: no limit."""
    settings: Mapping[str, Any]
    """The settings that all steps depend on, which cannot change within a folder."""
    labelled: Labelled | None
    out: Path
    minutes_of_fits: Mapping[str, float]
    """The maximum minutes of a fit of each system, by its name."""
    finished: Finished
    systems: Mapping[str, Entry] = field(default_factory=lambda: SYSTEMS)
    """The systems that can be compared, by name."""
    measurements: Sequence[type[SystemStep]] = ()
    """What is measured of each system without labels."""
    names: Sequence[tuple[str, str]] = ()
    """A name and a group for each document of the training text; empty: they have numbers."""

    def fit_minutes(self, system: str) -> float:
        """Return the maximum minutes of a fit of a system."""
        return self.minutes_of_fits[system]

    def done(self, step: Step) -> Done | None:
        """Return the result of a step; None: it is not done."""
        return self.finished.find(step.name, step.key(self))

    def run_folder(self, entry: Entry, seed: int) -> Path:
        """Return the folder of a system's pre-training run."""
        return self.out / "runs" / (entry.is_that_of or entry.name) / f"seed-{seed}"

    def task_folder(self, entry: Entry, seed: int) -> Path:
        """Return the folder of a system's fits of the task."""
        return self.out / "tasks" / entry.name / f"seed-{seed}"

    def inside(self, path: Path) -> str:
        """Return a path relative to the folder."""
        return path.relative_to(self.out).as_posix()
