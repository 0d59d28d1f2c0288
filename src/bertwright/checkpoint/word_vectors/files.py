"""Word vectors as word2vec, GloVe and fastText write them, both ways.

| form | what |
|---|---|
| text (`.vec`, `.txt`) | `V H`, then a word and H numbers a line; GloVe has no first line |
| binary (`.bin`) | the line `V H`, then a word, a space and H float32 a row |

`.gz` after either is read. Letters: V words, H numbers of a vector.
"""

from __future__ import annotations

import codecs
import mmap
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Float32s
from bertwright.errors import DataError, MissingExtra
from bertwright.text.corpus.files import open_bytes

SUFFIXES = (".vec", ".txt", ".bin")
_BLOCK = 1 << 24
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


class NamedVectors(NamedTuple):
    """Words and their vectors."""

    words: list[str]
    vectors: Float32s
    """`[V, H]`"""


def is_vector_file(path: Path) -> bool:
    """Whether a path is a file of word vectors by its name, and no weights of another model."""
    name = path.name.removesuffix(".gz")
    return name.endswith(SUFFIXES) and not name.startswith("pytorch_model") and path.is_file()


def read_vectors(path: str | Path) -> NamedVectors:
    """Read a file of either form.

    Raises:
        DataError: it is neither, is truncated, has ragged rows, words twice, other numbers of rows
            than its first line says, numbers that are not finite, or is not UTF-8.
        MissingExtra: numba, for text.
    """
    path = Path(path)
    data: Any
    if path.name.endswith(".gz"):
        with open_bytes(path) as packed:
            data = packed.read()
    elif path.stat().st_size == 0:
        data = b""
    else:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:3] == codecs.BOM_UTF8:
        data = data[3:]
    first = bytes(data[: 1 << 20]).split(b"\n", 1)[0].split()
    header = tuple(map(int, first)) if len(first) == 2 and all(map(bytes.isdigit, first)) else None
    if path.name.removesuffix(".gz").endswith(".bin"):
        found = _read_binary(path, data, header)
    else:
        found = _read_text(path, data, header, len(first) - 1)
    _check(path, found)
    return found


def _read_binary(path: Path, data: Any, header: tuple[int, ...] | None) -> NamedVectors:
    count, width = header or (0, 0)
    at, size = data.find(b"\n") + 1, 4 * width
    wrong = DataError(
        f"{path} does not begin with a line of two numbers, words and width, or it is truncated, "
        f"or goes on after its {count:,} vectors; expected a binary file of word2vec or fastText"
    )
    if not width or count * (size + 1) > len(data) - at:
        raise wrong
    words, vectors = [], np.empty((count, width), np.float32)
    for row in range(count):
        end = data.find(b" ", at)
        if end < 0 or end + 1 + size > len(data):
            raise wrong
        words.append(_decoded(path, bytes(data[at:end]).lstrip(b"\n"), row + 1))
        vectors[row] = np.frombuffer(data, "<f4", width, end + 1)
        at = end + 1 + size
    if bytes(data[at : at + 2]).strip():
        raise wrong
    return NamedVectors(words, vectors)


def _read_text(path: Path, data: Any, header: tuple[int, ...] | None, fields: int) -> NamedVectors:
    try:
        from bertwright.checkpoint.word_vectors.parse import parse_rows
    except ImportError as error:
        raise MissingExtra("words", "numba", "reading vectors from text") from error
    start = data.find(b"\n") + 1 if header else 0
    width = header[1] if header else fields
    if width < 1 or start == len(data):
        raise DataError(
            f"{path} holds no vectors; expected a word and its numbers a line, with spaces between"
        )
    buffer = np.frombuffer(data, np.uint8)
    blocks = range(start, len(data), _BLOCK)
    rows = sum(np.count_nonzero(buffer[at : at + _BLOCK] == 10) for at in blocks)
    rows += data[-1:] != b"\n"
    vectors, word_ends = np.empty((rows, width), np.float32), np.empty((rows, 2), np.int64)
    read = parse_rows(buffer, start, width, vectors, word_ends)
    words: list[str] = []
    for begin, end in word_ends[:read].tolist():
        word = _decoded(path, bytes(data[begin:end]), len(words) + 1)
        if " " in word and NUMBER.fullmatch(word.rsplit(" ", 1)[1]):
            break  # a number too many, as it is read from the right
        words.append(word)
    if len(words) < rows:
        raise DataError(
            f"line {len(words) + 1 + bool(header)} of {path} is not a word and {width} finite "
            "numbers with spaces between: the file is truncated, ragged or not UTF-8"
        )
    if header is not None and header[0] != rows:
        raise DataError(
            f"the first line of {path} says {header[0]:,} words, but it has {rows:,}: it is "
            "truncated, or the line is not its own"
        )
    return NamedVectors(words, vectors)


def _decoded(path: Path, word: bytes, row: int) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"word {row} of {path}, {word[:40]!r}, is not UTF-8; convert a text: iconv -f LATIN1 "
            "-t UTF-8"
        ) from error


def _check(path: Path, found: NamedVectors) -> None:
    if not np.isfinite(found.vectors.sum(1, dtype=np.float64)).all():
        row = int(np.flatnonzero(~np.isfinite(found.vectors).all(1))[0])
        raise DataError(f"the vector of {found.words[row]!r} in {path} is not finite: remove it")
    if len(set(found.words)) < len(found.words):
        double = Counter(found.words).most_common(1)[0][0]
        raise DataError(f"{path} has the word {double!r} twice: keep one of its rows")


def write_text(path: Path, found: NamedVectors) -> None:
    """Write the form of word2vec with nine digits, from which the same float32 are read."""
    row_format = " ".join(["%.9g"] * found.vectors.shape[1])
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(found.words)} {found.vectors.shape[1]}\n")
        for word, vector in zip(found.words, found.vectors, strict=True):
            file.write(f"{word} {row_format % tuple(vector.tolist())}\n")


def write_binary(path: Path, found: NamedVectors) -> None:
    """Write the binary form of word2vec, or DataError: a space in a word would end it there."""
    if spaced := next((word for word in found.words if " " in word), None):
        raise DataError(f"{spaced!r} holds a space, which a binary file cannot: write text (.vec)")
    with path.open("wb") as file:
        file.write(f"{len(found.words)} {found.vectors.shape[1]}\n".encode())
        for word, vector in zip(found.words, found.vectors.astype("<f4"), strict=True):
            file.write(word.encode("utf-8") + b" " + vector.tobytes() + b"\n")
