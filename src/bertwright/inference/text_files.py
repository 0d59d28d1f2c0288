"""The texts of a file, read in order without holding them all: the input of verbs that use a model.

| file | a text is |
|---|---|
| `.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet` | a column's value, or two columns' as a pair |
| any other | a line, empty ones too |

Standard input is a table where a column is named or it begins with a JSON object, else lines.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from bertwright.errors import DataError
from bertwright.inference.encode import Text
from bertwright.labelled.source import BadRowLog, BadRows, name_of, suffix_of
from bertwright.labelled.tables.table import Table, open_form, read_table
from bertwright.text.corpus.files import BLOCK_BYTES, COMPRESSED_SUFFIXES, open_bytes
from bertwright.text.corpus.rows import is_json_lines

TABLES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
T = TypeVar("T")
AT_ONCE, CHARACTERS_AT_ONCE = 8192, 1 << 23
"""Texts, and characters of texts, that are held in memory while their vectors are made."""


@dataclass
class Texts:
    """Texts that are read lazily, and what was found on the way."""

    name: str
    rows: Iterator[tuple[Text, str]]
    """Texts, each with the value of the column `beside`, or ""."""
    log: BadRowLog
    empty: int = 0
    repaired: int = 0
    """Lines with bytes that are no UTF-8."""
    total: int | None = None
    """How many there are, about; None where only reading would show."""
    waiting: int | None = None
    """Lines of standard input that have come and were not yet given; None of anything else."""

    def groups(self, size: int) -> Iterator[list[Text]]:
        """Lists of `size` texts; of standard input, of the lines that have come, so that who sends
        one need not send more to see what becomes of it."""
        group = []
        for text, _ in self.rows:
            group.append(text)
            if len(group) == size or self.waiting == 0:
                yield group
                group = []
        if group:
            yield group


def open_texts(
    path: str,
    text: str | None = None,
    text2: str | None = None,
    beside: str | None = None,
    bad_rows: BadRows = "refuse",
    option: str = "--input",
    longest: int | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Texts:
    """Open a file of texts, or `-`.

    Args:
        text: column of the text; unset: found by its name.
        text2: column of the second text of pairs.
        beside: a column whose value is given with each text.
        bad_rows: whether a row without a text stops the reading, or is counted and left out.
        option: what named the file, for messages.
        names: other names of a column that the caller names; the file has one of them.
        longest: bytes that a text may have; unset: any number. A longer line is never read whole.

    Raises:
        DataError: no such file or column; while reading: a row that cannot be read, or that is
            longer than `longest`.
    """
    file = Path(path)
    if path != "-" and not file.is_file():
        raise DataError(f"no file {path}; {option} takes a file of texts, or -")
    log = BadRowLog(name_of(file), bad_rows)
    named = [name for name in (text, text2, beside) if name is not None]
    if suffix_of(file) in TABLES or (path == "-" and (named or _is_json_lines())):
        return _from_table(file, text, text2, beside, log, longest, names or {})
    if named:
        raise DataError(
            f"{path} is read as one text a line and has no columns; name a .jsonl, .csv, .tsv or "
            ".parquet file"
        )
    found = Texts(log.name, iter(()), log, total=_count_lines(file))
    found.rows = _lines(file, found, longest)
    return found


def chunks(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    """Lists of `size`, the last one shorter."""
    while chunk := list(islice(rows, size)):
        yield chunk


def bounded(
    texts: Iterable[Text], most: int = AT_ONCE, characters: int = CHARACTERS_AT_ONCE
) -> Iterator[list[Text]]:
    """Yield lists of at most `most` texts with at most so many characters together.

    A text that has more characters by itself is alone in its list.
    """
    part: list[Text] = []
    size = 0
    for text in texts:
        length = len(text) if isinstance(text, str) else sum(map(len, text))
        if part and (len(part) == most or size + length > characters):
            yield part
            part, size = [], 0
        part.append(text)
        size += length
    if part:
        yield part


def _is_json_lines() -> bool:
    """Whether standard input begins with a JSON object; none of it is consumed."""
    if sys.stdin is None or sys.stdin.buffer.closed:
        return False  # an error when it is read
    with contextlib.suppress(OSError):
        return is_json_lines(cast(BufferedReader, sys.stdin.buffer).peek())
    return False


def _count_lines(path: Path) -> int | None:
    """Lines of a plain file; None of standard input and compressed files."""
    if str(path) == "-" or path.suffix.lower() in COMPRESSED_SUFFIXES:
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK_BYTES), b""))


def _lines(path: Path, found: Texts, longest: int | None) -> Iterator[tuple[Text, str]]:
    number = 0
    with open_bytes(path) as file:
        if str(path) == "-":
            lines = _as_they_come(file, found, longest)
        else:
            room = -1 if longest is None else longest + len(b"\r\n")
            lines = iter(lambda: file.readline(room), b"")
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if longest is not None and len(line.rstrip(b"\r\n")) > longest:
                raise too_long(found.name, number, longest)
            text = line.decode("utf-8", "replace")
            found.repaired += "\ufffd" in text and "\ufffd".encode() not in line
            text = text.rstrip("\r\n")
            found.empty += not text.strip()
            yield text, ""
    if not number:
        raise DataError(f"{found.name} is empty; expected one text a line")


def too_long(name: str, line: int, longest: int) -> DataError:
    """The error for a text that is longer than a verb reads."""
    return DataError(
        f"line {line:,} of {name} has more than {longest:,} bytes; expected a text a line: split "
        "it into lines"
    )


def _as_they_come(file: BinaryIO, found: Texts, longest: int | None) -> Iterator[bytes]:
    """Lines of a terminal or a pipe, counting those that need not be waited for; of one that is
    longer than `longest` the beginning."""
    begun: list[bytes] = []
    while block := cast(BufferedReader, file).read1(BLOCK_BYTES):
        first, *more = block.split(b"\n")
        begun.append(first)
        if not more:
            if longest is not None and sum(map(len, begun)) > longest + 1:
                break
            continue
        lines = [b"".join(begun), *more[:-1]]
        begun = [more[-1]]
        for found.waiting in reversed(range(len(lines))):
            yield lines[-1 - found.waiting]
    if any(begun):
        yield b"".join(begun)


def _from_table(
    path: Path,
    text: str | None,
    text2: str | None,
    beside: str | None,
    log: BadRowLog,
    longest: int | None,
    others: Mapping[str, Sequence[str]],
) -> Texts:
    named = [name for name in (text, text2, beside) if name is not None]
    table = _table(path, [*named, *chain.from_iterable(others.values())], log)
    names = []
    for column, option in ((text, "--text"), (text2, "--text2"), (beside, "--color")):
        if column is not None and column in others:
            usual = [column, *others[column]]
            there = next((name for name in usual if table.has(name)), None)
            if there is None:
                raise DataError(
                    f"{table.name} has no column {' or '.join(usual)}; it has "
                    f"{', '.join(table.columns)}. Give the column this name"
                )
            names.append(table.named(there, option))
        elif column is not None:
            names.append(table.named(column, option))
        elif option == "--text":
            names.append(table.find(None, "texts", option))
    total = _count_lines(path) if suffix_of(path) in (".jsonl", ".ndjson") else None
    found = Texts(log.name, iter(()), log, total=total)
    found.rows = _rows(table, names, 2 if text2 is not None else 1, found, longest)
    return found


def _rows(
    table: Table, names: list[str], texts: int, found: Texts, longest: int | None
) -> Iterator[tuple[Text, str]]:
    log = found.log
    for line, values in table.rows(names):
        parts = [_string(value) for value in values[:texts]]
        if any(part is None for part in parts):
            bad = parts.index(None)
            log.bad(line, "no text", f"{values[bad]!r:.60} in the column {names[bad]}", "a text")
            continue
        clean = [part or "" for part in parts]
        if longest is not None and any(len(part.encode()) > longest for part in clean):
            raise too_long(log.name, line, longest)
        found.empty += not any(part.strip() for part in clean)
        beside = "" if len(values) == texts or values[texts] is None else str(values[texts])
        yield (clean[0] if texts == 1 else (clean[0], clean[1])), beside


def _table(path: Path, named: list[str], log: BadRowLog) -> Table:
    source, form = open_form(path, named)
    if form == "text":  # standard input: its header says nothing
        form = "tsv" if "\t" in source.first else "csv"
    return read_table(source, form, named, log)


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
