"""JSON lines, tables and `datasets`: a row is a document, the line breaks in it end sentences."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError, MissingExtra
from bertwright.text.corpus.documents import normalize_lines, read_text, split_long_document
from bertwright.text.corpus.report import CorpusReport

MAX_ROW_CHARACTERS = 1 << 28
"""A line of JSON or a field of a table over this is an error: it must be held in memory whole."""
_ROWS = 1024  # rows handed on at once
_SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
"""What Excel reads, and some programs write, before the header."""


def csv_delimiter(line: str) -> tuple[str, bool]:
    """What separates the fields of a CSV file (comma, semicolon or tab), by its first line, and
    whether this line says nothing else (`sep=;`)."""
    if found := _SEPARATOR_LINE.fullmatch(line):
        return found[1], True
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), []))), False


def read_rows(
    stream: BinaryIO, kind: str, name: str, config: CorpusConfig, report: CorpusReport
) -> Iterator[list[str]]:
    """The text of the rows of one file, in groups.

    Args:
        stream: the decompressed bytes.
        kind: `.jsonl`, `.ndjson`, `.csv`, `.tsv` (tabs, no quoting) or `.parquet`.
        name: of the file, for messages.

    Raises:
        DataError: a malformed row, no column `config.text_column` (its message lists those there).
        MissingExtra: Parquet without pyarrow.
    """
    if kind == ".parquet":
        values = _parquet(stream, name, config.text_column)
    else:
        lines = _lines(read_text(stream, name, config, report), name)
        if kind in (".jsonl", ".ndjson"):
            values = _json_values(lines, name, config.text_column)
        else:
            values = _table_values(lines, kind, name, config.text_column)
    yield from _texts(values, name, config, report, kind == ".parquet")


def is_json_lines(head: bytes, column: str) -> bool:
    """Whether a stream without a name begins with a JSON object: a whole line of it, or one that
    has the column."""
    line, end, _ = head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return not end and f'"{column}":'.encode() in line.replace(b'" :', b'":')


def read_dataset(name: str, config: CorpusConfig, report: CorpusReport) -> Iterator[list[str]]:
    """The text of `hf:NAME[@CONFIG][:SPLIT]`, in groups of rows; of the split train unless named.

    Raises:
        MissingExtra: `datasets` is not installed.
        DataError: no such data set, split or column.
    """
    try:
        import datasets
        from huggingface_hub import HfApi  # which `datasets` needs
    except ImportError as error:
        raise MissingExtra("hf", "datasets", f"reading {name}") from error
    found, _, split = name.removeprefix("hf:").partition(":")
    found, _, subset = found.partition("@")
    split = split or "train"
    if not Path(found).exists() and not datasets.config.HF_HUB_OFFLINE:
        try:
            # fail at once: `datasets` tries for half a minute
            HfApi().repo_info(found, repo_type="dataset", timeout=10)
        except Exception as error:  # of HTTP, of the library
            raise DataError(
                f"no data set {found} can be found on the Hugging Face hub ({_reason(error)}); "
                "check the name and the network, or give files"
            ) from error
    try:
        rows = datasets.load_dataset(found, subset or None, split=split, streaming=True)
    except Exception as error:  # of the library, of HTTP, of the system
        raise DataError(
            f"{name}: split {split!r} cannot be read: {_reason(error)}; a configuration and a "
            "split are named as hf:NAME@CONFIG:SPLIT"
        ) from error
    if rows.column_names is not None:
        _check_column(config.text_column, rows.column_names, name)
        rows = rows.select_columns([config.text_column])
    yield from _texts(_values(rows, config.text_column, name), name, config, report, True)


def _reason(error: Exception) -> str:
    """The message of somebody else's error on one line, without its examples of usage."""
    return " ".join(str(error).partition("Example")[0].split()) or type(error).__name__


def _values(rows: Any, column: str, name: str) -> Iterator[object]:
    count = 0
    try:
        for batch in rows.iter(_ROWS):
            values = batch.get(column, ())
            count += len(values)
            yield from values
    except Exception as error:  # a connection that broke, a damaged file
        raise DataError(
            f"{name} ends after row {count:,}: {_reason(error)}; start again"
        ) from error


def _texts(
    values: Iterable[object],
    name: str,
    config: CorpusConfig,
    report: CorpusReport,
    count_bytes: bool,
) -> Iterator[list[str]]:
    """Checked, normalized and split text of the rows."""
    group: list[str] = []
    for number, value in enumerate(values, 1):
        if value is None:
            report.empty_documents += 1
            continue
        if not isinstance(value, str):
            raise DataError(
                f"{name}, row {number:,}: column {config.text_column!r} holds "
                f"{type(value).__name__}; expected a string. Name another: --text-column"
            )
        if not value or value.isspace():
            report.empty_documents += 1
            continue
        text = normalize_lines(value)
        if not text.isascii():
            text = _without_surrogates(text, f"{name}, row {number:,}", config, report)
        if count_bytes:
            report.bytes += len(text) if text.isascii() else len(text.encode())
        group.extend(split_long_document(text, report))
        if len(group) >= _ROWS or len(text) > 1 << 20:
            yield group
            group = []
    if group:
        yield group


def _without_surrogates(text: str, where: str, config: CorpusConfig, report: CorpusReport) -> str:
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        if config.errors == "refuse":
            raise DataError(
                f"{where}: a lone surrogate; mend the file, or replace what is malformed with "
                "--errors replace"
            ) from None
    replaced = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    report.lone_surrogates += replaced.count("\ufffd") - text.count("\ufffd")
    return replaced


def _lines(blocks: Iterator[str], name: str) -> Iterator[str]:
    """Lines with their ends."""
    parts: list[str] = []
    size = 0
    for block in blocks:
        found = block.split("\n")
        parts.append(found[0])
        size += len(found[0])
        if size > MAX_ROW_CHARACTERS:
            raise DataError(
                f"{name} has a row of over {MAX_ROW_CHARACTERS:,} characters; "
                f"is it {Path(name).suffix}?"
            )
        if len(found) > 1:
            yield "".join(parts) + "\n"
            for line in found[1:-1]:
                yield line + "\n"
            parts = [found[-1]]
            size = len(found[-1])
    if size:
        yield "".join(parts)


def _json_values(lines: Iterable[str], name: str, column: str) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError alone: a number without end
            raise DataError(f"{name}, line {number:,} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise DataError(
                f"{name}, line {number:,} is a JSON {type(row).__name__}; expected an object "
                f'like {{"{column}": "..."}}'
            )
        if column not in row:
            _check_column(column, list(row), f"{name}, line {number:,}")
        yield row[column]


def _table_values(lines: Iterable[str], kind: str, name: str, column: str) -> Iterator[object]:
    # The limit is global in csv, and 128 KiB by default: far less than a book.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))
    if kind == ".tsv":
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        lines = iter(lines)
        first = next(lines, "")
        mark, alone = csv_delimiter(first)
        lines = itertools.chain(["\n" if alone else first], lines)
        reader = csv.reader(lines, delimiter=mark, strict=True)
    try:
        header = next(filter(None, reader), None)
        if header is None:
            return
        _check_column(column, header, name)
        if header.count(column) > 1:
            raise DataError(
                f"{name} has {header.count(column)} columns {column!r}; expected one. Rename the "
                "others"
            )
        index = header.index(column)
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):  # truncated text, most likely
                raise DataError(
                    f"{name}, line {reader.line_num:,} has {len(row)} fields; the header has "
                    f"{len(header)}. Mend the line, or quote separators in its text"
                )
            yield row[index]
    except csv.Error as error:
        raise DataError(
            f"{name}, line {reader.line_num:,}: {error}; expected {kind.lstrip('.').upper()} "
            "with closed quotes"
        ) from error


def _parquet(stream: BinaryIO, name: str, column: str) -> Iterator[object]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    with tempfile.TemporaryFile() as whole:
        source = stream
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            # Parquet is read from its end: a compressed one goes to disk first, never to memory.
            shutil.copyfileobj(stream, whole, 1 << 20)
            whole.seek(0)
            source = cast(BinaryIO, whole)
        try:
            table = parquet.ParquetFile(source)
            _check_column(column, table.schema_arrow.names, name)
            for batch in table.iter_batches(batch_size=_ROWS, columns=[column]):
                yield from batch.column(0).to_pylist()
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DataError(f"{name} is no whole Parquet file ({error}); get it again") from error


def _check_column(column: str, there: list[str], name: str) -> None:
    if column not in there:
        raise DataError(
            f"{name} has no column {column!r}; it has {', '.join(map(repr, there[:20]))}. "
            "Name one: --text-column NAME"
        )
