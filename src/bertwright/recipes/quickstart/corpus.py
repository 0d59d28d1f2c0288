"""Extract a corpus of English from the source files of Python packages; each module is a document.

The sources, in this order, are the language topics of `pydoc_data.topics` (each topic is a
document), the docstrings of the standard library, and those of the packages in `site-packages` by
name. Nothing is downloaded, imported or run: a source file is scanned with one regular expression
for comments and string literals, so a file of another Python version, or a broken one, can be read
too. Triple-quoted literals are extracted if they begin their line (docstrings, and the strings that
`add_docstr` of torch and `add_newdoc` of NumPy attach to compiled functions) or follow a name that
contains "doc".

Only sentences of prose are kept; doctests, literal blocks, tables, types, licences and markup are
left out. Paragraphs that occurred before in any module are left out too, because packages repeat
themselves (re-exports, templates, sibling classes); paragraphs that differ only in names and
numbers count as the same. The remaining text of a module is a document if it has at least three
sentences.

The output has the format of google-research/bert (one sentence per line, a blank line between
documents). An index has one JSON object per document, which says where the document is from.
"""

from __future__ import annotations

import ast
import gzip
import inspect
import json
import os
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertwright.errors import DataError
from bertwright.machine import usable_cores
from bertwright.progress import OnProgress, silent
from bertwright.text.sentences import split_sentences
from bertwright.text.workers import map_in_order

MOST_CHARACTERS = 40_000_000
LARGEST_SOURCE = 4_000_000  # bytes; larger files are tables of data
FEWEST_SENTENCES = 3

_NOT_VISITED = re.compile(
    r"(?:idle_)?test|tests|testdata|_?vendor|_?vendored|_vendored_packages|externals|extern"
    r"|third_?party|bertwright"
)
_FILES_OF_TESTS = re.compile(r"(?:test_\w+|\w+_tests?|conftest)\.py")
_COMPARED = re.compile(r"(?<![^\s(\"'])[a-z]+(?=[\s.,;:!?)\"']|$)")

_LITERAL = re.compile(
    r"""\#[^\n]*                                               # a comment
    |(?P<quotes>\"{3}|'{3})
        (?P<body>[^\\"']*(?:(?:\\[\s\S]|(?!(?P=quotes))["'])[^\\"']*)*)(?P=quotes)
    |"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"
    |'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'""",
    re.VERBOSE,
)  # no possessive repeats: Python 3.11.0 to 3.11.4 match groups of them wrongly
_PREFIX = re.compile(r"\b[rRbBuUfF]{1,2}$")
_BEFORE = re.compile(r"[ \t]*(?:\w*(?:doc|DOC)\w*\s*=\s*\(?)?")

_NO_TEXT = re.compile(
    r"""[^\w\s]{3,}\s*$|[\s|+=:*-]*$|[+|]|.*\|.*\|             # below headings, in tables
    |:(?:r?type|vartype)\b|[*`]{0,3}[\w.,* `]{1,80}\ :\ \S     # types
    |[\w.]+\(.*\)(?:\ *->.*|:)?$|def\ \w+\(|class\ \w+[(:]|import\ \w|from\ [\w.]+\ import""",
    re.VERBOSE,
)
_MARKER = re.compile(
    r"""(?:[-*+•]|\d{1,2}[.)]|\#\.)\s+                            # an item of a list
    |:\w+(?:\ [^:]*)?:\s*                                       # a field: `:param x:`
    |[*`]{0,3}\w[\w.]*[`*]{0,2}(?:\ ?\([^()]*\))?:(?:\s+|$)""",  # an argument: `x (int):`
    re.VERBOSE,
)
_DIRECTIVE = re.compile(r"\.\.(?: *([\w:-]+)::\s*)?")
_OF_TEXT = {"note", "warning", "tip", "hint", "important", "caution", "attention", "admonition"}
_MARKUP = (
    # code, links and roles: "`x`", "`text <target>`_", ":class:`~a.b.C`"
    (re.compile(r"(?::[\w+.:-]+:)?``?[~!]?([^`<]+?)(?:\s*<[^`>]*>)?``?_{0,2}"), r"\1"),
    (re.compile(r"\[([^\[\]]+)\]\((?:[^()]*\)|\S*)"), r"\1"),  # links of Markdown
    (re.compile(r"\s*\[(?:\d+|#\w*|[A-Z]\w+)\]_"), ""),  # citations
    (re.compile(r"(?<![\w*])\*{1,2}(\w[^*]*?)\*{1,2}(?![\w*])"), r"\1"),  # emphasis
    (re.compile(r"<?\b(?:https?|ftp)://\S+"), ""),
)
_LICENCE = ("copyright", "license", "licence", "warrant", "redistribut", "rights reserved", "spdx")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_PROSE = re.compile(r"%\(|\{\w*\}|[{};<>=|\\@]{2}|__\w+__.*__\w+__|(?:=.*){2}|\$")

Paragraphs = list[list[str]]


@dataclass(frozen=True)
class Module:
    """A source file and the name by which it is imported."""

    path: Path
    name: str
    package: str
    """The first part of the name."""
    source: str
    """`standard library` or `packages`."""


@dataclass
class DocsReport:
    """Statistics of the corpus."""

    documents: int = 0
    sentences: int = 0
    characters: int = 0
    modules_read: int = 0
    repeated_paragraphs: int = 0
    """The number of paragraphs that were left out because they occurred before."""
    characters_by_package: dict[str, int] = field(default_factory=dict)
    """The number of characters of each package, in descending order. The standard library counts as
    `python`.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return every field by its name."""
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
        folder: the folder to write to.
        search: folders of packages, read in place of the standard library and `site-packages`.
        workers: the number of processes; 0: one for every core. The result does not depend on it.
        most_characters: the number of characters after which no more documents are written.
        on_progress: called with the number of modules read.

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
        # Without a name and a time in the header, the same text gives the same bytes.
        gzip.GzipFile("", "wb", 6, text_path.open("wb"), mtime=0) as text,
        index_path.open("w", encoding="utf-8") as index,
    ):
        for entry, paragraphs in _all_documents(modules, search is None, workers):
            report.modules_read += entry["source"] != "topics"
            on_progress(report.modules_read, len(modules))
            sentences = _unseen(paragraphs, seen, report)
            if len(sentences) < FEWEST_SENTENCES:
                continue
            document = "\n".join(sentences)
            text.write((document + "\n\n").encode("utf-8", "replace"))
            size = len(document)
            origin = {"document": report.documents, **entry, "sentences": len(sentences)}
            index.write(json.dumps({**origin, "characters": size}) + "\n")
            report.documents += 1
            report.sentences += len(sentences)
            report.characters += size
            sizes[entry["package"] if entry["source"] == "packages" else "python"] += size
            if report.characters >= most_characters:
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
    """Return the paths of the corpus and of its index."""
    return folder / "python-docs.txt.gz", folder / "python-docs.index.jsonl"


def read_index(folder: Path) -> list[dict[str, Any]]:
    """Return the index of the corpus.

    Each document has an entry with the keys `document`, `module`, `package`, `source`, `sentences`
    and `characters`.
    """
    lines = corpus_files(folder)[1].read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def find_modules(search: Sequence[str] | None = None) -> list[Module]:
    """Return the source files to read: the standard library, then packages, each sorted by name."""
    if search is not None:
        return [m for folder in search for m in _modules_below(Path(folder), "packages")]
    library = Path(sysconfig.get_path("stdlib"))
    modules = list(_modules_below(library, "standard library"))
    visited = {library.resolve()}
    for entry in sys.path:
        folder = Path(entry)
        if folder.name not in ("site-packages", "dist-packages") or not folder.is_dir():
            continue
        if folder.resolve() not in visited:
            visited.add(folder.resolve())
            modules.extend(_modules_below(folder, "packages"))
    return modules


def _modules_below(root: Path, source: str) -> Iterator[Module]:
    """Yield the modules below a folder of `sys.path`."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            f for f in folders if f.isidentifier() and not _NOT_VISITED.fullmatch(f)
        )
        for file in sorted(files):
            path = Path(folder, file)
            if not file.endswith(".py") or _FILES_OF_TESTS.fullmatch(file):
                continue
            try:
                size = path.stat().st_size
            except OSError:  # a dangling link, such as an editor's lock
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
    """Yield the origin and the paragraphs of each text, always in the same order."""
    if topics:
        yield from _topics()
    for module, paragraphs in zip(modules, _read_all(modules, workers), strict=True):
        origin = {"module": module.name, "package": module.package, "source": module.source}
        yield origin, paragraphs


def _topics() -> Iterator[tuple[dict[str, Any], Paragraphs]]:
    """Yield the language topics of `help()`; nothing if the distribution does not include them."""
    path = Path(sysconfig.get_path("stdlib"), "pydoc_data", "topics.py")
    if not path.is_file():
        return
    tree = ast.parse(path.read_bytes())
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            topics: dict[str, str] = ast.literal_eval(node.value)
            for name in sorted(topics):
                origin = {"module": f"topic {name}", "package": "python", "source": "topics"}
                yield origin, prose(topics[name])


def read_module(path: Path) -> Paragraphs:
    """Return the paragraphs of all docstrings of a source file, in order.

    The result is empty if the file cannot be read.
    """
    try:
        source = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return [paragraph for text in find_docstrings(source) for paragraph in prose(text)]


def _read_all(modules: list[Module], workers: int) -> Iterator[Paragraphs]:
    """Yield the result of `read_module` for each module, computed by several processes."""
    paths = [module.path for module in modules]
    workers = 1 if len(paths) < 100 else workers or usable_cores()
    batches = [paths[first : first + 32] for first in range(0, len(paths), 32)]
    with closing(map_in_order(_make_reader, batches, workers)) as results:
        for paragraphs in results:
            yield from paragraphs


def _make_reader() -> Callable[[list[Path]], list[Paragraphs]]:
    """Return the function with which a worker process reads a batch of files."""
    return _read_modules


def _read_modules(paths: list[Path]) -> list[Paragraphs]:
    return [read_module(path) for path in paths]


def _unseen(paragraphs: Paragraphs, seen: set[str], report: DocsReport) -> list[str]:
    """Return the sentences of the paragraphs that did not occur before, and add these to `seen`."""
    unseen: list[str] = []
    for sentences in paragraphs:
        key = _key(" ".join(sentences))
        if key in seen:
            report.repeated_paragraphs += 1
            continue
        seen.add(key)
        unseen.extend(sentences)
    return unseen


def _key(text: str) -> str:
    """Return a key of a paragraph, made of its plain words; repeated paragraphs have equal keys."""
    words = _COMPARED.findall(text)
    return " ".join(words) if len(words) >= 4 else text.lower()


def find_docstrings(source: str) -> Iterator[str]:
    """Yield the documentation strings of a source file, in order, with escapes decoded."""
    for match in _LITERAL.finditer(source):
        if not match["quotes"]:
            continue
        line = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
        match_of_prefix = _PREFIX.search(line)
        prefix = match_of_prefix[0] if match_of_prefix else ""
        if not _BEFORE.fullmatch(line.removesuffix(prefix)) or set(prefix.lower()) & {"f", "b"}:
            continue
        body = match["body"]
        yield _unescape(match[0], body) if "\\" in body and "r" not in prefix.lower() else body


def _unescape(literal: str, body: str) -> str:
    """Return the value of a literal, or its source text if Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" is an invalid escape in other people's docstrings
        try:
            return str(ast.literal_eval(literal))
        except (SyntaxError, ValueError):
            return body


def prose(docstring: str) -> list[list[str]]:
    """Return the paragraphs of a docstring that are English, each as a list of sentences."""
    paragraphs: list[list[str]] = []
    for text in _paragraphs(inspect.cleandoc(docstring).split("\n")):
        lower = text.lower()
        if len(text) < 15 or any(word in lower for word in _LICENCE):
            continue
        sentences = [s for s in split_sentences(_plain(text)) if is_prose(s)]
        if sentences:
            paragraphs.append(sentences)
    return paragraphs


def is_prose(sentence: str) -> bool:
    """Return whether a sentence is prose: it has words, mostly letters, and no signs of code."""
    if not 20 <= len(sentence) <= 800 or _NOT_PROSE.search(sentence):
        return False
    if not (sentence[0].isalnum() or sentence[0] in "\"'("):
        return False
    words = _WORD.findall(sentence)
    letters = sum(map(len, words))
    return len(words) >= 4 and letters + sentence.count(" ") >= 0.82 * len(sentence)


def _plain(text: str) -> str:
    """Return a paragraph without markup."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield the running text of a docstring, one string for each paragraph or list item."""
    text: list[str] = []
    indent = 0  # the indentation of the paragraph
    is_item = in_doctest = False  # the next lines of an item may be indented further
    left_out: int | None = None  # lines that are indented further than this are left out
    for raw in lines:
        line, here = raw.strip(), len(raw) - len(raw.lstrip())
        if line and left_out is not None:
            if here > left_out:
                continue
            left_out = None
        in_doctest = bool(line) and (in_doctest or line.startswith((">>>", "In [")))
        is_text = bool(line) and not (in_doctest or _NO_TEXT.match(line))
        if is_text and (directive := _DIRECTIVE.match(line)):
            is_text = directive[1] in _OF_TEXT
            left_out = None if is_text else here
            line = line[directive.end() :]
        marker = _MARKER.match(line) if is_text else None
        moved = here < indent or (here > indent and not is_item)
        if text and (not is_text or marker or moved):
            yield " ".join(text)
            text = []
        if not is_text:
            continue
        if marker or not text:
            indent, is_item = here, bool(marker)
        line = line[marker.end() :] if marker else line
        if line.endswith("::"):
            line, left_out = line[:-1], here
        if line:
            text.append(line)
    if text:
        yield " ".join(text)
