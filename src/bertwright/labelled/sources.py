"""The lines of one file of examples, decompressed and decoded, and what kind of file it is."""

from __future__ import annotations

import glob
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError
from bertwright.labelled.bad_rows import BadRowLog
from bertwright.text.corpus.documents import read_text
from bertwright.text.corpus.files import COMPRESSED_SUFFIXES, open_bytes
from bertwright.text.corpus.report import CorpusReport

HEAD_LINES = 200
"""Lines that are looked at before anything is decided."""


@dataclass
class Source:
    """A text file, opened."""

    name: str
    """For messages."""
    suffix: str
    """`.tsv`, `.json`, ...; compression left aside; "" for standard input."""
    head: list[str]
    """The first lines, without their ends."""
    rest: Iterator[str]
    """The lines after `head`."""
    report: CorpusReport
    """Malformed bytes that were replaced, known when all is read."""

    def lines(self) -> Iterator[tuple[int, str]]:
        """All lines with their numbers, from 1."""
        return enumerate(itertools.chain(self.head, self.rest), 1)

    def looks_like_json(self) -> bool:
        """Whether it begins as a JSON object or array does."""
        if self.suffix in (".json", ".jsonl", ".ndjson"):
            return True
        if self.suffix in (".csv", ".tsv"):
            return False
        first = next((line for line in self.head if line.strip()), "").lstrip()
        return first.startswith(('{"', "[{", "{ ")) or first in ("{", "[")


def name_of(path: Path) -> str:
    """The file's name for messages."""
    return "standard input" if str(path) == "-" else str(path)


def suffix_of(path: Path) -> str:
    """The extension that tells the format, in small letters; compression left aside."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def open_source(path: Path) -> Source:
    """Open a text file and look at its first lines.

    Raises:
        DataError: it is missing, a folder, empty, binary or not UTF-8.
    """
    stream = open_file(path)
    report = CorpusReport()
    lines = _lines(read_text(stream, name_of(path), CorpusConfig(), report), stream)
    head = list(itertools.islice(lines, HEAD_LINES))
    if not any(line.strip() for line in head):
        raise DataError(f"{name_of(path)} is empty; expected labelled examples or texts")
    return Source(name_of(path), suffix_of(path), head, lines, report)


def refuse_missing(path: str) -> None:
    """Raise DataError for a file that is not there, before what takes long; not for `-`.

    What is there is not opened: of a pipe it would be lost.
    """
    place = Path(path)
    if path != "-" and (place.is_dir() or not place.exists()):
        open_file(place).close()


def open_file(path: Path) -> BinaryIO:
    """Open a file or standard input; a folder is told apart from what cannot be read."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name one file in it")
    if glob.has_magic(str(path)) and not path.exists():
        raise DataError(
            f"no file {path}; expected the name of one file, no pattern. To read several, put them "
            "together first"
        )
    return open_bytes(path)


def _lines(blocks: Iterator[str], stream: BinaryIO) -> Iterator[str]:
    """Lines without their ends; the file is closed after the last."""
    parts: list[str] = []
    with stream:
        for block in blocks:
            pieces = block.split("\n")
            parts.append(pieces[0])
            if len(pieces) > 1:
                yield "".join(parts)
                yield from pieces[1:-1]
                parts = [pieces[-1]]
    if any(parts):
        yield "".join(parts)


def without_surrogates(text: str, log: BadRowLog) -> str:
    """Half characters that JSON escapes can spell become U+FFFD; the first is warned of."""
    try:
        text.encode()
    except UnicodeEncodeError:
        warning = f"{log.name}: lone surrogates were replaced by U+FFFD"
        if warning not in log.warnings:
            log.warnings.append(warning)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
