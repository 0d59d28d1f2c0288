"""Parts of data files, so that a small budget can read them: the first rows, sentences, ...

Chinese words need a package beyond `.[dev]`: `pip install jieba`.
"""

from __future__ import annotations

import json
import lzma
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from needs import needs

from bertwright.atomic import atomic_file


@dataclass(frozen=True)
class Part:
    """A part of a file, or of two parallel files."""

    take: str
    """One of `TAKES`, or `pairs`: the pairs of two files whose first sentence has a number of words
    from the first to the second of `words`. Of pairs a folder is written, with both files.
    """
    sources: tuple[Path, ...]
    """May be compressed by xz."""
    count: int = 0
    """How many; 0: all."""
    shuffle: bool = False
    """Whether to take them in an order drawn with seed 0."""
    words: tuple[int, ...] = ()

    @property
    def shown(self) -> str:
        """What is taken, for users."""
        if self.take == "pairs":
            what = f"pairs of {self.words[0]} to {self.words[1]} words"
        else:
            what = f"{self.count:,} {self.take}" if self.count else f"all {self.take}"
        return f"{what} of {', '.join(path.name for path in self.sources)}"

    def write(self, target: Path) -> None:
        """Write the part to a file or folder."""
        if self.take == "pairs":
            self._write_pairs(target)
            return
        raw = self.sources[0].read_bytes()
        if self.sources[0].suffix == ".xz":
            raw = lzma.decompress(raw)
        made = TAKES[self.take](raw.decode("utf-8-sig"), self.count, self.shuffle)
        with atomic_file(target, overwrite=True) as file:
            file.write(made)

    def _write_pairs(self, folder: Path) -> None:
        lines = [path.read_text(encoding="utf-8").splitlines() for path in self.sources]
        shortest, longest = self.words
        chosen = [
            pair for pair in zip(*lines, strict=True) if shortest <= len(pair[0].split()) <= longest
        ]
        folder.mkdir(exist_ok=True)
        for path, column in zip(self.sources, zip(*chosen, strict=True), strict=True):
            (folder / path.name).write_text("\n".join(column) + "\n", encoding="utf-8")


def _some(parts: list[str], count: int, shuffle: bool) -> list[str]:
    if shuffle:
        random.Random(0).shuffle(parts)
    return parts[: count or None]


def rows(text: str, count: int, shuffle: bool) -> str:
    """Return the header of a table and so many rows."""
    header, *others = text.rstrip("\n").split("\n")
    return "\n".join([header, *_some(others, count, shuffle)]) + "\n"


def lines(text: str, count: int, shuffle: bool) -> str:
    """Return so many lines of a file without a header, such as JSON lines."""
    return "\n".join(_some(text.rstrip("\n").split("\n"), count, shuffle)) + "\n"


def sentences(text: str, count: int, shuffle: bool) -> str:
    """Return so many sentences of a file of columns, with an empty line between them."""
    parts = [part.strip("\n") for part in text.split("\n\n") if part.strip()]
    return "\n\n".join(_some(parts, count, shuffle)) + "\n"


def conll_documents(text: str, count: int, shuffle: bool) -> str:
    """Return whole documents of a CoNLL file until they have so many sentences."""
    mark = "-DOCSTART-"
    documents = [mark + rest.rstrip("\n") for rest in text.split(mark)[1:]]
    taken: list[str] = []
    size = 0
    for document in _some(documents, 0, shuffle):
        if count and size >= count:
            break
        taken.append(document)
        size += len([part for part in document.split("\n\n")[1:] if part.strip()])
    return "\n\n".join(taken) + "\n"


def questions(text: str, count: int, shuffle: bool) -> str:
    """Return so many questions of a SQuAD file, each with its passage."""
    paragraphs = [
        {"context": paragraph["context"], "qas": [question]}
        for article in json.loads(text)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    order = list(range(len(paragraphs)))
    if shuffle:
        random.Random(0).shuffle(order)
    chosen = [paragraphs[index] for index in order[: count or None]]
    data = {"version": "1.1", "data": [{"title": "", "paragraphs": chosen}]}
    return json.dumps(data, ensure_ascii=False)


def characters(text: str, count: int, shuffle: bool) -> str:
    """Return whole documents, with an empty line between them, of so many million characters."""
    taken: list[str] = []
    size = 0
    for document in _some(text.split("\n\n"), 0, shuffle):
        if count and size >= 1_000_000 * count:
            break
        taken.append(document)
        size += len(document)
    return "\n\n".join(taken) + "\n"


def short_sentences(text: str, count: int, shuffle: bool) -> str:
    """Return so many sentences of 20 to 200 characters of running text, one a line.

    A masked language model scores them whole, where a document has more tokens than it reads.
    """
    parts = re.split(r"(?<=[.!?])\s+|\n+", text)
    short = [part for part in parts if 20 <= len(part) <= 200]
    return "\n".join(_some(short, count, shuffle)) + "\n"


def words(text: str, count: int, shuffle: bool) -> str:
    """Return `characters` of Chinese text, with a space between words, as jieba segments them."""
    needs("jieba", "jieba")
    import jieba

    parts = characters(text, count, shuffle).split("\n")
    return "\n".join(" ".join(jieba.cut(part)) for part in parts)


def per_paradigm(text: str, count: int, shuffle: bool) -> str:
    """Return so many minimal pairs of each paradigm of BLiMP, as JSON lines.

    The paper counts the paradigms of s-selection as argument structure, and so do these lines.
    """
    seen: Counter[str] = Counter()
    taken: list[str] = []
    for line in _some(text.splitlines(), 0, shuffle):
        pair = json.loads(line)
        seen[pair["paradigm"]] += 1
        if count and seen[pair["paradigm"]] > count:
            continue
        if pair["phenomenon"] == "s-selection":
            pair["phenomenon"] = "argument_structure"
        taken.append(json.dumps(pair, ensure_ascii=False))
    return "\n".join(taken) + "\n"


TAKES: dict[str, Callable[[str, int, bool], str]] = {
    "rows": rows,
    "lines": lines,
    "sentences": sentences,
    "sentences in documents": conll_documents,
    "questions": questions,
    "million characters": characters,
    "short sentences": short_sentences,
    "million characters in words": words,
    "pairs a paradigm": per_paradigm,
}
"""What is taken -> the function that takes it."""
