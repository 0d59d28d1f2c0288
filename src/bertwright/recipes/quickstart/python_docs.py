"""The English that every Python machine holds: one module a document.

Sources, in this order: the language topics of `pydoc_data.topics` (one topic a document), the
docstrings of the standard library, those of the packages in `site-packages` by name. Nothing is
imported and nothing is fetched: source files are read as text (see `text.docstrings`). Packages
repeat themselves (re-exports, templates, sibling classes), so a paragraph that came before, in any
module, is left out; paragraphs that differ only in names and numbers count as the same. What
remains of a module is a document if it has three sentences or more.

Written is what google-research/bert reads (a sentence a line, a blank line between documents), and
beside it one JSON object a document that says where it is from.
"""

from __future__ import annotations

import ast
import gzip
import json
import multiprocessing
import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertwright.cores import usable_cores
from bertwright.errors import DataError
from bertwright.progress import OnProgress, silent
from bertwright.recipes.quickstart.docstrings import find_docstrings, prose
from bertwright.text.workers import start_worker

MOST_CHARACTERS = 40_000_000
LARGEST_SOURCE = 4_000_000  # bytes; what is larger is a table
FEWEST_SENTENCES = 3

_NOT_VISITED = frozenset(
    [
        "test",
        "tests",
        "testdata",
        "_vendor",
        "vendor",
        "vendored",
        "_vendored",
        "_vendored_packages",
        "externals",
        "extern",
        "third_party",
        "thirdparty",
        "site-packages",
        "dist-packages",
        "__pycache__",
        "idle_test",
        "bertwright",
    ]
)
_FILES_OF_TESTS = re.compile(r"(?:test_\w+|\w+_tests?|conftest)\.py")
_COMPARED = re.compile(r"(?<![^\s(\"'])[a-z]+(?=[\s.,;:!?)\"']|$)")

Paragraphs = list[list[str]]


@dataclass(frozen=True)
class Module:
    """A source file and the name it is imported by."""

    path: Path
    name: str
    package: str
    """The first part of the name."""
    source: str
    """`standard library` or `packages`."""


@dataclass
class DocsReport:
    """What the corpus is made of."""

    documents: int = 0
    sentences: int = 0
    characters: int = 0
    modules_read: int = 0
    modules_without_text: int = 0
    """Modules with fewer than three sentences of their own."""
    repeated_paragraphs: int = 0
    """Paragraphs left out because they came before."""
    reached_limit: bool = False
    """Whether modules were left out because there was text enough."""
    characters_by_package: dict[str, int] = field(default_factory=dict)
    """The largest first; all of the standard library counts as `python`."""

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name."""
        return asdict(self)


def write_python_docs(
    folder: Path,
    *,
    search: Sequence[str] | None = None,
    workers: int = 0,
    most_characters: int = MOST_CHARACTERS,
    on_progress: OnProgress = silent,
) -> DocsReport:
    """Write `python-docs.txt.gz` and `python-docs.index.jsonl` into `folder`.

    Args:
        folder: made if it does not exist.
        search: folders of packages to read in place of the standard library and `site-packages`.
        workers: processes; 0 means one for every core. The bytes written do not depend on it.
        most_characters: stop when there is so much text.
        on_progress: counts modules.

    Raises:
        DataError: no documentation was found.
    """
    modules = find_modules(search)
    report = DocsReport()
    seen: set[str] = set()
    sizes: Counter[str] = Counter()
    folder.mkdir(parents=True, exist_ok=True)
    text_path, index_path = corpus_files(folder)
    with (
        # no name and no time in the header: the same text is the same bytes
        gzip.GzipFile("", "wb", 6, text_path.open("wb"), mtime=0) as text,
        index_path.open("w", encoding="utf-8") as index,
    ):
        for entry, paragraphs in _all_documents(modules, search is None, workers):
            report.modules_read += entry["source"] != "topics"
            on_progress(report.modules_read, len(modules))
            sentences = _unseen(paragraphs, seen, report)
            if len(sentences) < FEWEST_SENTENCES:
                report.modules_without_text += entry["source"] != "topics"
                continue
            document = "\n".join(sentences)
            text.write((document + "\n\n").encode("utf-8", "replace"))
            size = len(document)
            place = {"document": report.documents, **entry, "sentences": len(sentences)}
            index.write(json.dumps({**place, "characters": size}) + "\n")
            report.documents += 1
            report.sentences += len(sentences)
            report.characters += size
            sizes[entry["package"] if entry["source"] == "packages" else "python"] += size
            if report.characters >= most_characters:
                report.reached_limit = True
                break
    if not report.documents:
        raise DataError(
            "no documentation found in this Python: its library has no source files "
            f"({len(modules)} modules looked at); give a corpus of your own: "
            "bertwright tokenizer train CORPUS --out DIR"
        )
    report.characters_by_package = dict(sizes.most_common())
    return report


def corpus_files(folder: Path) -> tuple[Path, Path]:
    """Where the text and its index stand."""
    return folder / "python-docs.txt.gz", folder / "python-docs.index.jsonl"


def read_index(folder: Path) -> list[dict[str, Any]]:
    """The index: `document`, `module`, `package`, `source`, `sentences`, `characters` of each."""
    lines = corpus_files(folder)[1].read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def find_modules(search: Sequence[str] | None = None) -> list[Module]:
    """Source files worth reading, the standard library first, each group in order of names."""
    if search is not None:
        return [m for place in search for m in _modules_below(Path(place), "packages")]
    library = Path(sysconfig.get_path("stdlib"))
    modules = list(_modules_below(library, "standard library"))
    visited = {library.resolve()}
    for entry in sys.path:
        place = Path(entry)
        if place.name not in ("site-packages", "dist-packages") or not place.is_dir():
            continue
        if place.resolve() not in visited:
            visited.add(place.resolve())
            modules.extend(_modules_below(place, "packages"))
    return modules


def _modules_below(root: Path, source: str) -> Iterator[Module]:
    """The modules below one folder of `sys.path`."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in _NOT_VISITED and f.isidentifier())
        for file in sorted(files):
            path = Path(folder, file)
            if not file.endswith(".py") or _FILES_OF_TESTS.fullmatch(file):
                continue
            try:
                size = path.stat().st_size
            except OSError:  # a link to nothing, as editors' locks are
                continue
            if not 0 < size <= LARGEST_SOURCE:
                continue
            parts = list(path.relative_to(root).with_suffix("").parts)
            if len(parts) > 1 and parts[-1] == "__init__":
                parts.pop()
            if parts[0] != "pydoc_data":
                yield Module(path, ".".join(parts), parts[0], source)


def _all_documents(
    modules: list[Module], topics: bool, workers: int
) -> Iterator[tuple[dict[str, Any], Paragraphs]]:
    """Where each text is from, and its paragraphs, always in the same order."""
    if topics:
        yield from _topics()
    for module, paragraphs in zip(modules, _read_all(modules, workers), strict=True):
        place = {"module": module.name, "package": module.package, "source": module.source}
        yield place, paragraphs


def _topics() -> Iterator[tuple[dict[str, Any], Paragraphs]]:
    """The language topics of `help()`; none where a distribution left them out."""
    path = Path(sysconfig.get_path("stdlib"), "pydoc_data", "topics.py")
    if not path.is_file():
        return
    tree = ast.parse(path.read_bytes())
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            topics: dict[str, str] = ast.literal_eval(node.value)
            for name in sorted(topics):
                place = {"module": f"topic {name}", "package": "python", "source": "topics"}
                yield place, prose(topics[name])


def read_module(path: Path) -> Paragraphs:
    """The paragraphs of all docstrings of one source file, in order; none if it is not readable."""
    try:
        source = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return [paragraph for text in find_docstrings(source) for paragraph in prose(text)]


def _read_all(modules: list[Module], workers: int) -> Iterator[Paragraphs]:
    """`read_module` of all, by several processes."""
    paths = [module.path for module in modules]
    workers = workers or usable_cores()
    if workers == 1 or len(paths) < 100:
        yield from map(read_module, paths)
        return
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, context, start_worker) as pool:
        try:
            yield from pool.map(read_module, paths, chunksize=32)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _unseen(paragraphs: Paragraphs, seen: set[str], report: DocsReport) -> list[str]:
    """The sentences of the paragraphs that did not come before."""
    kept: list[str] = []
    for sentences in paragraphs:
        key = _key(" ".join(sentences))
        if key in seen:
            report.repeated_paragraphs += 1
            continue
        seen.add(key)
        kept.extend(sentences)
    return kept


def _key(text: str) -> str:
    """What two paragraphs must share to be the same: their plain words."""
    words = _COMPARED.findall(text)
    return " ".join(words) if len(words) >= 4 else text.lower()
