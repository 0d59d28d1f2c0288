"""Rows of CSV, TSV and Parquet: what a corpus of rows and a labelled file are both read by."""

from __future__ import annotations

import csv
import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO, cast

from bertwright.errors import DataError, MissingExtra

MAX_ROW_CHARACTERS = 1 << 28
"""A line or a field of a table over this is an error: it must be held in memory whole."""
EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The first line of a CSV file of Excel."""
ROWS = 1024
"""Rows of Parquet that are read at once."""


def split_lines(blocks: Iterable[str], name: str) -> Iterator[str]:
    """Lines without their ends, and without the byte order marks of files that were put together.

    Raises:
        DataError: a line, as a row is one, of over `MAX_ROW_CHARACTERS`.
    """
    parts: list[str] = []
    size = 0
    for block in blocks:
        first, *others = block.split("\n")
        parts.append(first)
        size += len(first)
        if size > MAX_ROW_CHARACTERS:
            raise DataError(
                f"{name} has a row of over {MAX_ROW_CHARACTERS:,} characters, which must be held "
                "in memory; split it"
            )
        for line in others:
            yield "".join(parts).removeprefix("\ufeff")
            parts, size = [line], len(line)
    if size:
        yield "".join(parts).removeprefix("\ufeff")


def csv_delimiter(line: str) -> str:
    """What separates the fields of a CSV file (comma, semicolon or tab), by its first line."""
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def split_rows(
    lines: Iterator[str], name: str, *, quoted: bool, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file that are not empty, with the line that each begins at.

    It is CSV if it is `quoted`; otherwise tabs separate, and a quote is a character. Lines have no
    ends; `name` is for messages. Without a `delimiter` that of CSV is found by the first line.

    Raises:
        DataError: a quote that is not closed.
    """
    if not quoted:
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line)
        return
    head = [""]
    while not head[-1].strip() and (line := next(lines, None)) is not None:
        head.append(line)
    # The limit is global in csv, and 128 KiB by default: far less than a book.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))
    ended = (f"{line}\n" for line in chain(head[1:], lines))
    reader = csv.reader(ended, delimiter=delimiter or csv_delimiter(head[-1]), strict=True)
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name}, line {number:,}: {error}; expected CSV with closed quotes"
        ) from error


@contextmanager
def open_parquet(stream: BinaryIO, name: str) -> Iterator[Any]:
    """A Parquet file as pyarrow opens it; a compressed one goes to disk first, never to memory, as
    it is read from its end.

    Raises:
        DataError: it is damaged, also where that is found while it is read.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    with tempfile.TemporaryFile() as whole:
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            shutil.copyfileobj(stream, whole, 1 << 20)
            whole.seek(0)
            stream = cast(BinaryIO, whole)
        try:
            yield parquet.ParquetFile(stream)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DataError(f"{name} is no whole Parquet file ({error}); get it again") from error


def replace_surrogates(text: str) -> str:
    """Half characters, which JSON escapes can spell, as U+FFFD; the text itself if it has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
