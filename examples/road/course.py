"""What the notebooks share: a corpus, two vocabularies, a labelled task, and how code is shown.

The corpus is documentation that is installed with Bertwright: the docstrings of Python and of five
packages, read as text by the code of `bertwright quickstart`. Nothing is downloaded. The labelled
task is that of the quickstart too: from which of the six packages is a passage?

The first notebook that runs writes all of it to `runs/course`, and the others find it there. With
the environment variable `BERTWRIGHT_COURSE=small`, everything is small and stands in
`runs/course-small`; the figures then mean nothing.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import bertwright
from bertwright.recipes.quickstart.corpus import Module, find_modules, read_module
from bertwright.recipes.quickstart.task import write_labelled

PACKAGES = ("python", "numpy", "scipy", "sklearn", "sympy", "torch")
"""The packages whose documentation is read; `python` is the standard library."""
HELD_OUT = 10
"""One module of so many is held out from all training."""
Document = tuple[dict[str, str], list[str], bool]
"""Where a document is from, its sentences, and whether it is held out."""


@dataclass(frozen=True)
class Course:
    """The folder of the course."""

    folder: Path
    small: bool
    """Whether everything is small, for a test."""

    @property
    def corpus(self) -> Path:
        """The text to train on: a sentence per line, and a blank line between documents."""
        return self.folder / "corpus.txt"

    @property
    def held_out(self) -> Path:
        """The text of the modules that are held out, in the same form."""
        return self.folder / "held-out.txt"

    @property
    def shards(self) -> Path:
        """The text to train on as ids of wordpieces."""
        return self.folder / "wordpiece-shards"

    @property
    def word_shards(self) -> Path:
        """The text to train on as ids of whole words."""
        return self.folder / "word-shards"

    @property
    def train(self) -> Path:
        """The labelled passages to train on."""
        return self.folder / "task" / "train.jsonl"

    @property
    def dev(self) -> Path:
        """The labelled passages by which fine-tuning selects the best epoch."""
        return self.folder / "task" / "dev.jsonl"

    @property
    def test(self) -> Path:
        """The labelled passages of held-out modules."""
        return self.folder / "task" / "test.jsonl"

    def run(self, name: str) -> Path:
        """Return the folder of a run."""
        return self.folder / "runs" / name

    def documents(self, path: Path, characters: int | None = None) -> list[str]:
        """Return the documents of a file, or the first ones with so many characters."""
        kept, size = [], 0
        for document in path.read_text(encoding="utf-8").split("\n\n"):
            text = " ".join(document.split())
            size += len(text)
            if characters is not None and kept and size > characters:
                break
            kept.append(text)
        return [text for text in kept if text]

    def __str__(self) -> str:
        sizes = [
            f"{name} {path.stat().st_size / 1e6:.2f} million characters"
            for name, path in (("to train on", self.corpus), ("held out", self.held_out))
        ]
        return f"documentation of {', '.join(PACKAGES)}: " + ", ".join(sizes)


def prepare() -> Course:
    """Return the folder of the course, which is made if it is not there."""
    small = os.environ.get("BERTWRIGHT_COURSE") == "small"
    course = Course(Path("runs", "course-small" if small else "course"), small)
    ready = course.folder / "ready"
    if not ready.is_file():
        shutil.rmtree(course.folder, ignore_errors=True)
        course.folder.mkdir(parents=True)
        _make(course)
        ready.touch()
    return course


def _make(course: Course) -> None:
    """Write the text, the labelled passages, the two vocabularies and their shards."""
    characters, wordpieces, words, examples = 900_000, 4096, 12_000, 600
    if course.small:
        characters, wordpieces, words, examples = 50_000, 600, 1500, 90
    modules = find_modules()
    documents = [
        each
        for package in PACKAGES
        for each in _documents([m for m in modules if _package_of(m) == package], characters)
    ]
    for path, is_held in ((course.corpus, False), (course.held_out, True)):
        texts = ["\n".join(sentences) for _, sentences, held in documents if held == is_held]
        path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    write_labelled(course.folder / "task", documents, examples)
    rows = course.train.read_text(encoding="utf-8").splitlines()
    kept = len(rows) - len(rows) // 10
    for path, part in ((course.train, rows[:kept]), (course.dev, rows[kept:])):
        path.write_text("\n".join(part) + "\n", encoding="utf-8")
    tokenizer = course.folder / "words"
    bertwright_command(
        *("tokenizer", "train", course.corpus, "--algorithm", "word"),
        *("--vocab-size", words, "--workers", 1, "--out", tokenizer),
    )
    lines: dict[str, Any] = {"reading": {"sentences": "line"}, "progress": False}
    bertwright.build_data(course.corpus, out=course.shards, vocab_size=wordpieces, **lines)
    bertwright.build_data(course.corpus, out=course.word_shards, tokenizer=tokenizer, **lines)


def _documents(modules: list[Module], characters: int) -> Iterator[Document]:
    """Yield modules of a package in random order until they have so many characters."""
    Random(1).shuffle(modules)
    seen: set[str] = set()
    size = number = 0
    for module in modules:
        sentences = []
        for paragraph in read_module(module.path):
            text = " ".join(paragraph)
            if text not in seen:
                sentences += paragraph
            seen.add(text)
        if len(sentences) < 3:
            continue
        origin = {"module": module.name, "package": module.package, "source": module.source}
        yield origin, sentences, number % HELD_OUT == HELD_OUT - 1
        number += 1
        size += sum(map(len, sentences))
        if size >= characters:
            return


def _package_of(module: Module) -> str:
    return "python" if module.source == "standard library" else module.package


def bertwright_command(*words: object) -> None:
    """Run a command of `bertwright`, and raise an error with its message if it fails."""
    command = [sys.executable, "-m", "bertwright", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"bertwright {' '.join(map(str, words))}: {done.stderr}")


def source(*shown: Any) -> Source:
    """Return the source of functions and classes, for display.

    Args:
        shown: objects; or triples of an object and words of the first and of the last line that is
            shown of it.
    """
    return Source(tuple(_piece(each) for each in shown))


@dataclass(frozen=True)
class Source:
    """Pieces of source code, each with its file."""

    pieces: tuple[tuple[str, str], ...]

    def _repr_markdown_(self) -> str:
        return "\n\n".join(f"`{file}`\n\n```python\n{code}\n```" for file, code in self.pieces)

    def __repr__(self) -> str:
        return "source of " + ", ".join(dict.fromkeys(file for file, _ in self.pieces))


def _piece(shown: Any) -> tuple[str, str]:
    """Return the file of an object, from the package on, and its source."""
    found, first, last = shown if isinstance(shown, tuple) else (shown, "", "")
    function = getattr(found, "py_func", found)  # that of a compiled function
    lines: Sequence[str] = inspect.getsource(function).splitlines()
    if first:
        start = next(n for n, line in enumerate(lines) if first in line)
        stop = next(n for n, line in enumerate(lines) if n >= start and last in line)
        lines = lines[start : stop + 1]
    path = Path(inspect.getsourcefile(function) or "").as_posix()
    file = path[path.rindex("bertwright/") :] if "bertwright/" in path else path
    return file, textwrap.dedent("\n".join(lines))
