"""Comparisons that need no data, because they use the documentation of the Python installation.

The corpus and the labelled task are made by `quickstart/corpus.py` and `quickstart/task.py`: which
package does a passage belong to? The test passages are from modules that no system was trained on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file, disk_errors
from bertwright.config.compare import CompareConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.recipes.compare.labelled import Task
from bertwright.recipes.compare.measure import MEASUREMENTS
from bertwright.recipes.compare.plan import choose
from bertwright.recipes.compare.run import Request
from bertwright.recipes.compare.steps import SystemStep
from bertwright.recipes.compare.systems import FIVE, SYSTEMS, Entry
from bertwright.recipes.compare.text import WRITTEN, held_out_documents
from bertwright.recipes.quickstart.corpus import corpus_files, read_index, write_python_docs
from bertwright.recipes.quickstart.task import TooFewPackages, package_of, write_labelled
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.text.corpus.read import read_documents
from bertwright.text.corpus.report import CorpusReport

MADE = "made.json"
"""The file that is written last."""
HELD_OUT = 0.1
"""The fraction of the modules that is held out, on which the task is tested."""


@dataclass(frozen=True)
class Preset:
    """The settings of a comparison on the documentation of Python."""

    name: str
    names: tuple[str, ...]
    """The names of the systems."""
    minutes: float
    """Minutes of pre-training of each system, if they are not set."""
    task_minutes: float
    """Maximum minutes of a fit, if they are not set."""
    sizes: Sequence[tuple[float, int]]
    """Pairs of minutes and labelled passages: the numbers of passages to fit with, each for at
    least so many minutes of pre-training.
    """
    systems: Mapping[str, Entry] = field(default_factory=lambda: SYSTEMS)
    """The systems that can be compared, by name."""
    measurements: Sequence[type[SystemStep]] = MEASUREMENTS


PYTHON = Preset("python", FIVE, minutes=3.0, task_minutes=1.0, sizes=[(0.0, 800)])
QUICKSTART = Preset(
    "quickstart",
    ("bert",),
    minutes=5.0,
    task_minutes=1.5,
    sizes=[(0.0, 100), (1.0, 400), (3.0, 1600), (15.0, 6400)],
    systems={
        "bert": replace(
            SYSTEMS["bert"],
            settings={
                **SYSTEMS["bert"].settings,
                "validation": {"fraction": HELD_OUT, "hold_out": "documents", "tokens": 32768},
            },
        )
    },
    measurements=(),
)


def python_docs(
    preset: Preset,
    config: CompareConfig,
    folder: Path,
    say: Callable[[str], None],
    overwrite: bool = False,
) -> Request:
    """Write the corpus and its labelled files to a folder, and return what is compared.

    Files that exist are not written again, except with `overwrite`. There is no task if there are
    too few packages.

    Raises:
        ConfigError, MissingExtra, DataError: a setting is wrong; then nothing is written.
        BertwrightError: the disk is full or the folder is not writable.
    """
    minutes = preset.minutes if config.minutes is None else config.minutes
    sizes = [size for least, size in preset.sizes if minutes >= least]
    config = replace(
        config,
        systems=config.names_of_systems or preset.names,
        minutes=minutes,
        held_out=HELD_OUT,
    )
    choose(config, "classification", preset.systems)
    if overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / MADE).is_file():
        _make(folder, max(sizes), say)
    made = read_made(folder)
    task = None
    if made["train"] is not None:
        train, test = (str(folder / "task" / made[name]) for name in ("train", "test"))
        task = Task("classification", TaskFilesConfig(train=train), ClassificationOptions(), test)
        fractions = {min(1.0, size / made["examples"]) for size in sizes}
        if config.fractions == CompareConfig.fractions:
            config = replace(config, fractions=tuple(sorted(fractions)))
    return Request(
        inputs=[str(corpus_files(folder / "corpus")[0])],
        config=config,
        task=task,
        reading=WRITTEN,
        most_held_out=None,
        task_minutes=preset.task_minutes,
        preset=preset.name,
        systems=preset.systems,
        measurements=preset.measurements,
        names=_module_names(folder / "corpus"),
    )


def read_made(folder: Path) -> dict[str, Any]:
    """Return the facts of the corpus and the task in a folder: `corpus`, `train`, `test`,
    `examples`, and `left_out`, the reason why there is no task.
    """
    made: dict[str, Any] = json.loads((folder / MADE).read_text(encoding="utf-8"))
    return made


def _module_names(corpus: Path) -> list[tuple[str, str]]:
    """Return the module and the package of each document that is not held out."""
    index = read_index(corpus)
    held = held_out_documents(len(index), HELD_OUT).tolist()
    return [
        (entry["module"], package_of(entry))
        for entry, is_held in zip(index, held, strict=True)
        if not is_held
    ]


def _make(folder: Path, examples: int, say: Callable[[str], None]) -> None:
    """Write the corpus and the labelled files."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        say("collecting the documentation of Python and its packages")
        corpus = write_python_docs(folder / "corpus")
        largest = list(corpus.characters_by_package.items())[:6]
        say(
            f"{corpus.documents:,} modules with {corpus.sentences:,} sentences, "
            f"{corpus.characters / 1e6:.1f} MB of English; {corpus.repeated_paragraphs:,} repeated "
            "paragraphs left out; most from "
            + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest)
        )
        made: dict[str, Any] = {"corpus": corpus.as_dict(), "train": None, "test": None}
        try:
            files = write_labelled(folder / "task", _modules(folder / "corpus"), examples)
            made |= {"train": files.train.name, "test": files.test.name, "examples": files.examples}
        except TooFewPackages as few:
            made["left_out"] = str(few)
            say(f"there is no labelled task: {few}")
        with atomic_file(folder / MADE, overwrite=True) as file:
            json.dump(made, file)


def _modules(corpus: Path) -> Iterable[tuple[Mapping[str, Any], Sequence[str], bool]]:
    """Return each module: its entry in the index, its sentences, and whether it is held out."""
    index = read_index(corpus)
    held = held_out_documents(len(index), HELD_OUT)
    documents = read_documents([str(corpus_files(corpus)[0])], WRITTEN, CorpusReport())
    return zip(index, documents, held.tolist(), strict=True)
