"""Read and write files of word vectors in the forms of word2vec, GloVe and fastText.

| form | content |
|---|---|
| text (`.vec`, `.txt`) | `V H`, then a word and H numbers per line; GloVe has no first line |
| binary (`.bin`) | the line `V H`, then a word, a space and H float32 per row |

A file of either form may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`).

Letters: V words, H numbers of a vector.
"""

from __future__ import annotations

import codecs
import mmap
import re
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float32s, Int64s
from bertwright.errors import DataError, MissingExtra
from bertwright.machine import usable_memory
from bertwright.rows.compressed import COMPRESSED_SUFFIXES
from bertwright.rows.open import open_bytes

SUFFIXES = (".vec", ".txt", ".bin")
_HEAD, _BLOCK, _TEXT_BLOCK = 1 << 20, 1 << 24, 1 << 22
_LONGEST_LINE = 1 << 26
"""The maximum number of bytes of one line of a compressed text."""
_MOST_NUMBERS = 1 << 20
"""The maximum of H; the widest published vectors have a width of a few thousand."""
_FASTTEXT = (793712314).to_bytes(4, "little")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


class NamedVectors(NamedTuple):
    """Words and their vectors."""

    words: list[str]
    vectors: Float32s
    """`[V, H]`"""
    notes: tuple[str, ...] = ()
    """Notes on what was left out or replaced while reading."""


def is_vector_file(path: Path) -> bool:
    """Return whether a path is a file of word vectors and not of a model's weights, judged by its
    name.
    """
    name = _plain_name(path)
    return name.endswith(SUFFIXES) and not name.startswith("pytorch_model") and path.is_file()


def read_vectors(path: str | Path) -> NamedVectors:
    """Return the words and vectors of a file of either form.

    If a word occurs twice, its first vector is kept. word2vec truncates long words within a
    character, so bytes that are not UTF-8 become U+FFFD: anywhere in a word of a binary file, and
    at the end of a word of a text file. Both are counted in `notes`. A compressed file takes no
    more memory than its vectors, whatever its compression ratio.
    """
    path = Path(path)
    with open_bytes(path) as file:
        head = file.read(_HEAD)
        if head.startswith(codecs.BOM_UTF8):
            head = head[len(codecs.BOM_UTF8) :]
        first = head.split(b"\n", 1)[0].split()
        header = _header_of(path, first)
        if _plain_name(path).endswith(".bin"):
            vectors = _read_binary(path, file, head, header)
        elif path.suffix in COMPRESSED_SUFFIXES:
            vectors = _read_text_stream(path, file, head, header, len(first) - 1)
        else:
            vectors = _read_text(path, header, len(first) - 1)
    return _checked(path, vectors)


def _plain_name(path: Path) -> str:
    """Return the name of a file without the suffix of its compression."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def _header_of(path: Path, first: list[bytes]) -> tuple[int, int] | None:
    """Return the number of words and the width of a vector; None if the first line does not state
    them.
    """
    if len(first) != 2 or not all(map(bytes.isdigit, first)):
        return None
    if max(map(len, first)) > 12 or int(first[1]) > _MOST_NUMBERS:
        shown = b" ".join(first)[:60].decode("ascii")
        raise DataError(
            f"the first line of {path} is {shown!r}; expected how many words it has, and how many "
            f"numbers a vector has, at most {_MOST_NUMBERS:,}"
        )
    return int(first[0]), int(first[1])


def _read_binary(
    path: Path, file: BinaryIO, head: bytes, header: tuple[int, int] | None
) -> NamedVectors:
    count, width = header or (0, 0)
    size = 4 * width
    wrong = DataError(
        f"{path} does not begin with a line of two numbers, words and width, or it is truncated, "
        f"or goes on after its {count:,} vectors; expected a binary file of word2vec or fastText"
    )
    if head.startswith(_FASTTEXT):
        raise DataError(f"{path} is a .bin of fastText; unpack it, and convert it to a folder")
    if not count or not width:
        raise wrong
    words: list[str] = []
    seen: set[str] = set()
    vectors, rows, replaced = np.empty((0, width), np.float32), 0, 0
    data, at = head, head.find(b"\n") + 1
    while rows < count:
        end = data.find(b" ", at)
        if end < 0 or end + 1 + size > len(data):
            more = file.read(max(_BLOCK, size))
            if not more or len(data) - at > size + _LONGEST_LINE:
                raise wrong
            data, at = data[at:] + more, 0
            continue
        word = data[at:end].lstrip(b"\n").decode("utf-8", errors="replace")
        rows, replaced = rows + 1, replaced + ("\ufffd" in word)
        if word not in seen:
            seen.add(word)
            _grow(path, vectors, len(words) + 1, count)
            vectors[len(words)] = np.frombuffer(data, "<f4", width, end + 1)
            words.append(word)
        at = end + 1 + size
    if (data[at : at + 2] + file.read(2))[:2].strip():
        raise wrong
    vectors.resize((len(words), width), refcheck=False)
    return NamedVectors(words, vectors, _replaced(replaced) + _repeated(rows - len(words)))


def _grow(path: Path, vectors: Float32s, rows: int, most: int | None = None) -> None:
    """Enlarge the array of vectors in place to at least `rows` rows. `most` is the number of rows
    that the whole file needs; None: it is unknown.
    """
    if len(vectors) < rows:
        width = vectors.shape[1]
        _require_memory(path, rows, width)
        more = max(rows, (1 << 22) // width, len(vectors) + (len(vectors) >> 1))
        vectors.resize((more if most is None else min(more, most), width), refcheck=False)


def _require_memory(path: Path, rows: int, width: int) -> None:
    """Raise DataError if the vectors need more memory than this machine has."""
    size, most = 4 * rows * width, usable_memory()
    if most is not None and size > most:
        raise DataError(
            f"{path} has {rows:,} vectors of {width:,} numbers or more, which take "
            f"{size / 1e9:,.1f} GB of memory; this machine has {most / 1e9:,.1f} GB: take a file "
            "of fewer words"
        )


def _read_text(path: Path, header: tuple[int, int] | None, fields: int) -> NamedVectors:
    """Read an uncompressed text file. Its rows are counted first, so that only its vectors take
    memory.
    """
    if path.stat().st_size == 0:
        raise _no_vectors(path)
    with path.open("rb") as file:
        data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = len(codecs.BOM_UTF8) if data[:3] == codecs.BOM_UTF8 else 0
    start = data.find(b"\n") + 1 if header else start
    width = header[1] if header else fields
    if width < 1 or start == len(data) or (header and not start):
        raise _no_vectors(path)
    buffer = np.frombuffer(data, np.uint8)
    blocks = range(start, len(data), _BLOCK)
    rows = sum(np.count_nonzero(buffer[at : at + _BLOCK] == 10) for at in blocks)
    rows += data[-1:] != b"\n"
    most = _most_rows(rows, width, len(data))
    _require_memory(path, most, width)
    vectors, word_ends = np.empty((most, width), np.float32), np.empty((most, 2), np.int64)
    read = _parse(buffer, start, width, vectors, word_ends)
    words, replaced = _words_of(path, data, word_ends[:read], 0)
    _check_rows(path, len(words), rows, width, header)
    return NamedVectors(words, vectors, _replaced(replaced))


def _read_text_stream(
    path: Path, file: BinaryIO, head: bytes, header: tuple[int, int] | None, fields: int
) -> NamedVectors:
    """Read a compressed text block by block.

    A repeated word is left out immediately, so only the vectors that are kept take memory, whatever
    the ratio of compression.
    """
    width = header[1] if header else fields
    data = head[head.find(b"\n") + 1 :] if header else head
    words: list[str] = []
    seen: set[str] = set()
    vectors = np.empty((0, max(1, width)), np.float32)
    rows = replaced = 0
    while True:
        more = file.read(_TEXT_BLOCK)
        data += more
        stop = data.rfind(b"\n") + 1 if more else len(data)
        if not stop and len(data) > _LONGEST_LINE:
            raise DataError(
                f"line {rows + 1 + bool(header)} of {path} has more than {_LONGEST_LINE >> 20} MB: "
                "it holds no vectors"
            )
        if stop and width > 0:
            whole, data = data[:stop], data[stop:]
            number = whole.count(b"\n") + (not whole.endswith(b"\n"))
            most = _most_rows(number, width, len(whole))
            part, word_ends = np.empty((most, width), np.float32), np.empty((most, 2), np.int64)
            read = _parse(np.frombuffer(whole, np.uint8), 0, width, part, word_ends)
            block_words, cut = _words_of(path, whole, word_ends[:read], rows)
            rows, replaced = rows + len(block_words), replaced + cut
            new_rows = []
            for row, word in enumerate(block_words):
                if word not in seen:
                    seen.add(word)
                    new_rows.append(row)
            _grow(path, vectors, len(words) + len(new_rows))
            vectors[len(words) : len(words) + len(new_rows)] = part[new_rows]
            words += [block_words[row] for row in new_rows]
            if len(block_words) < number:
                _check_rows(path, rows, rows + 1, width, header)
        if not more:
            break
    if not rows:
        raise _no_vectors(path)
    _check_rows(path, rows, rows, width, header)
    vectors.resize((len(words), width), refcheck=False)
    notes = _replaced(replaced) + _repeated(rows - len(words))
    return NamedVectors(words, vectors, notes)


def _most_rows(lines: int, width: int, size: int) -> int:
    """Return the maximum number of rows that `lines` lines of `size` bytes in all can hold.

    A number takes at least two bytes. The limit prevents that ragged lines take memory.
    """
    return min(lines, size // (2 * width) + 1)


def _parse(
    buffer: npt.NDArray[np.uint8],
    start: int,
    width: int,
    vectors: Float32s,
    word_ends: Int64s,
) -> int:
    """Call `parse_rows`; raise MissingExtra if numba is not installed."""
    try:
        from bertwright.models.word_vectors.parse import parse_rows
    except ImportError as error:
        raise MissingExtra("words", "numba", "reading vectors from text") from error
    return int(parse_rows(buffer, start, width, vectors, word_ends))


def _words_of(path: Path, data: Any, word_ends: Int64s, before: int) -> tuple[list[str], int]:
    """Return the words of the rows before the first malformed one, and the number of words in which
    bytes were replaced.

    Args:
        path: the file.
        data: the bytes from which the rows were parsed.
        word_ends: the start and end of each word.
        before: the number of rows of the file before these rows.
    """
    words: list[str] = []
    replaced = 0
    for begin, end in word_ends.tolist():
        raw = bytes(data[begin:end])
        try:
            word = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                raise DataError(
                    f"word {before + len(words) + 1} of {path}, {raw[:40]!r}, is not UTF-8; "
                    "convert a text: iconv -f LATIN1 -t UTF-8"
                ) from error
            word, replaced = raw.decode("utf-8", errors="replace"), replaced + 1
        if " " in word and NUMBER.fullmatch(word.rsplit(" ", 1)[1]):
            break  # rows are read from the right, so this line has one number too many
        words.append(word)
    return words, replaced


def _check_rows(
    path: Path, read: int, rows: int, width: int, header: tuple[int, int] | None
) -> None:
    if read < rows:
        raise DataError(
            f"line {read + 1 + bool(header)} of {path} is not a word and {width} finite "
            "numbers with spaces between: the file is truncated, ragged or not UTF-8"
        )
    if header is not None and header[0] != rows:
        raise DataError(
            f"the first line of {path} says {header[0]:,} words, but it has {rows:,}: it is "
            "truncated, or the line is not its own"
        )


def _no_vectors(path: Path) -> DataError:
    return DataError(
        f"{path} holds no vectors; expected one word and its numbers per line, with spaces between"
    )


def _replaced(count: int) -> tuple[str, ...]:
    what = "words are not whole UTF-8 (word2vec truncates long ones); their bad bytes became U+FFFD"
    return (f"{count:,} {what}",) if count else ()


def _repeated(count: int) -> tuple[str, ...]:
    what = "rows repeat an earlier word and were left out: the first vector is kept"
    return (f"{count:,} {what}",) if count else ()


def _checked(path: Path, content: NamedVectors) -> NamedVectors:
    """Return the vectors with each word once; raise DataError if a number is not finite."""
    words, vectors, notes = content
    if not np.isfinite(vectors.sum(1, dtype=np.float64)).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(1))[0])
        raise DataError(f"the vector of {words[row]!r} in {path} is not finite: remove it")
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        first.setdefault(word, row)
    if len(first) == len(words):
        return content
    rows = list(first.values())
    notes += _repeated(len(words) - len(rows))
    return NamedVectors(list(first), vectors[rows], notes)


def write_text(path: Path, content: NamedVectors) -> None:
    """Write the text form. Numbers have nine digits, so that the same float32 is read back."""
    row_format = " ".join(["%.9g"] * content.vectors.shape[1])
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(content.words)} {content.vectors.shape[1]}\n")
        for word, vector in zip(content.words, content.vectors, strict=True):
            file.write(f"{word} {row_format % tuple(vector.tolist())}\n")


def write_binary(path: Path, content: NamedVectors) -> None:
    """Write the binary form; raise DataError if a word contains a space, which would end it."""
    if spaced := next((word for word in content.words if " " in word), None):
        raise DataError(f"{spaced!r} holds a space, which a binary file cannot: write text (.vec)")
    with path.open("wb") as file:
        file.write(f"{len(content.words)} {content.vectors.shape[1]}\n".encode())
        for word, vector in zip(content.words, content.vectors.astype("<f4"), strict=True):
            file.write(word.encode("utf-8") + b" " + vector.tobytes() + b"\n")
