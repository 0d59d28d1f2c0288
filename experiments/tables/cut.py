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
from pathlib import Path

from needs import needs


def cut_file(take: str, source: Path, target: Path, count: int, shuffle: bool) -> None:
    """Write a part of a file, unless it is there.

    Args:
        take: one of `TAKES`.
        source: may be compressed by xz.
        target: the file that is written.
        count: how many; 0: all.
        shuffle: in an order drawn with seed 0 before the first `count` are taken.
    """
    if target.exists():
        return
    raw = source.read_bytes()
    if source.suffix == ".xz":
        raw = lzma.decompress(raw)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f"{target.name}.new")
    made = TAKES[take](raw.decode("utf-8-sig"), count, shuffle)
    new.write_text(made, encoding="utf-8")
    new.replace(target)


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


def cut_parallel(
    sources: tuple[Path, Path], targets: tuple[Path, Path], shortest: int, longest: int
) -> None:
    """Write the pairs of two parallel files whose first sentence has so many words."""
    if all(path.exists() for path in targets):
        return
    both = [path.read_text(encoding="utf-8").splitlines() for path in sources]
    chosen = [
        pair for pair in zip(*both, strict=True) if shortest <= len(pair[0].split()) <= longest
    ]
    for path, column in zip(targets, zip(*chosen, strict=True), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(column) + "\n", encoding="utf-8")
