"""A comparison that needs no data, because it uses the documentation of the Python installation.

The corpus and the labelled task are those of the quickstart (`quickstart/corpus.py`,
`quickstart/task.py`): which package does a passage belong to? The test passages are from modules
that no system was trained on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_file, disk_errors
from bertwright.config.compare import CompareConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.recipes.compare.labelled import Task
from bertwright.recipes.compare.plan import choose
from bertwright.recipes.compare.run import Request
from bertwright.recipes.compare.rungs import FIVE
from bertwright.recipes.compare.text import WRITTEN, held_out_documents
from bertwright.recipes.quickstart.corpus import corpus_files, read_index, write_python_docs
from bertwright.recipes.quickstart.task import TooFewPackages, write_labelled
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.text.corpus.read import read_documents
from bertwright.text.corpus.report import CorpusReport

MADE = "made.json"
"""The file that is written last."""
MINUTES, TASK_MINUTES, HELD_OUT = 1.5, 0.4, 0.1
EXAMPLES = 800
"""The number of labelled passages to train on."""


def python_docs(
    config: CompareConfig, folder: Path, say: Callable[[str], None], overwrite: bool = False
) -> Request:
    """Write the corpus and its labelled files to a folder, and return what is compared.

    Files that exist are not written again, except with `overwrite`. There is no task if there are
    too few packages.

    Raises:
        ConfigError, MissingExtra, DataError: a setting is wrong; then nothing is written.
        BertwrightError: the disk is full or the folder is not writable.
    """
    text = corpus_files(folder / "corpus")[0]
    config = replace(
        config,
        systems=config.names_of_systems or FIVE,
        minutes=MINUTES if config.minutes is None else config.minutes,
        held_out=HELD_OUT,
    )
    choose(config, "classification")
    with disk_errors(folder):
        if overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        if not (folder / MADE).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            say("collecting the documentation of Python and its packages")
            write_python_docs(folder / "corpus")
            made: dict[str, Any] = {"train": None, "test": None}
            try:
                files = write_labelled(folder / "task", _modules(folder / "corpus"), [EXAMPLES])
                made = {"train": files.train[-1][1].name, "test": files.test[1].name}
            except TooFewPackages as few:
                say(f"there is no labelled task: {few}")
            with atomic_file(folder / MADE, overwrite=True) as file:
                json.dump(made, file)
        made = json.loads((folder / MADE).read_text(encoding="utf-8"))
    task = None
    if made["train"] is not None:
        train, test = (str(folder / "task" / made[name]) for name in ("train", "test"))
        task = Task("classification", TaskFilesConfig(train=train), ClassificationOptions(), test)
    return Request([str(text)], config, task, WRITTEN, None, TASK_MINUTES)


def _modules(corpus: Path) -> Iterable[tuple[Mapping[str, Any], Sequence[str], bool]]:
    """Return each module: its entry in the index, its sentences, and whether it is held out."""
    index = read_index(corpus)
    held = held_out_documents(len(index), HELD_OUT)
    documents = read_documents([str(corpus_files(corpus)[0])], WRITTEN, CorpusReport())
    return zip(index, documents, held.tolist(), strict=True)
