"""Read the rows of CSV, TSV and Parquet, for corpora and for labelled files."""

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
"""The most characters of a line or field of a table, which must be held in memory whole."""
EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The first line that Excel may write to a CSV file, which names the separator."""
ROWS = 1024
"""The number of rows of Parquet that are read at once."""


def split_lines(blocks: Iterable[str], name: str) -> Iterator[str]:
    """Yield lines without line ends, and without the byte order marks of concatenated files.

    Raises:
        DataError: a line is longer than `MAX_ROW_CHARACTERS`.
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
    """Return the delimiter of a CSV file (comma, semicolon or tab), detected from its first
    line.
    """
    _allow_long_fields()
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def _allow_long_fields() -> None:
    """Raise csv's limit, which is global and by default 128 KiB, less than a book."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))


def split_rows(
    lines: Iterator[str], name: str, *, quoted: bool, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file that are not empty, with the line that each begins at.

    The file is CSV if `quoted`; otherwise it is separated by tabs, and a quote is an ordinary
    character. The lines come without line ends; `name` is for messages. Without a `delimiter`, that
    of CSV is detected from the first line.

    Raises:
        DataError: a quote is not closed.
    """
    if not quoted:
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line)
        return
    head = [""]
    while not head[-1].strip() and (line := next(lines, None)) is not None:
        head.append(line)
    delimiter = delimiter or csv_delimiter(head[-1])
    _allow_long_fields()
    ended = (f"{line}\n" for line in chain(head[1:], lines))
    reader = csv.reader(ended, delimiter=delimiter, strict=True)
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
    """Open a Parquet file with pyarrow.

    A compressed file is first decompressed to disk, not to memory, because Parquet is read from its
    end.

    Raises:
        DataError: the file is damaged, which may only be found while it is read.
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
    """Return the text with lone surrogates, which JSON escapes can spell, as U+FFFD; or the text
    itself.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
