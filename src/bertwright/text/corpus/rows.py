"""JSON lines, tables and `datasets`: a row is a document, the line breaks in it end sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError, MissingExtra
from bertwright.text.corpus.documents import normalize_lines, read_text, split_long_document
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tables import ROWS, open_parquet, replace_surrogates, split_lines, split_rows


def read_rows(
    stream: BinaryIO, kind: str, name: str, config: CorpusConfig, report: CorpusReport
) -> Iterator[list[str]]:
    """The text of the rows of one file, in groups; `kind` is `.jsonl`, `.ndjson`, `.csv`, `.tsv`
    (tabs, no quoting) or `.parquet`, `name` is for messages.

    Raises:
        DataError: a malformed row, no column `config.text_column` (its message lists those there).
        MissingExtra: Parquet without pyarrow.
    """
    if kind == ".parquet":
        values = _parquet(stream, name, config.text_column)
    else:
        lines = split_lines(read_text(stream, name, report), name)
        if kind in (".jsonl", ".ndjson"):
            values = _json_values(lines, name, config.text_column)
        else:
            values = _table_values(lines, kind, name, config.text_column)
    yield from _texts(values, name, config, report, kind == ".parquet")


def is_json_lines(head: bytes) -> bool:
    """Whether a stream without a name begins as a JSON object does, with `{"`."""
    return re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"', head) is not None


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
        for batch in rows.iter(ROWS):
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
            mended = replace_surrogates(text)
            if mended is not text:
                report.invalid_utf8 += mended.count("\ufffd") - text.count("\ufffd")
                text = mended
        if count_bytes:
            report.bytes += len(text) if text.isascii() else len(text.encode())
        group.extend(split_long_document(text, report))
        if len(group) >= ROWS or len(text) > 1 << 20:
            yield group
            group = []
    if group:
        yield group


def _json_values(lines: Iterable[str], name: str, column: str) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
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


def _table_values(lines: Iterator[str], kind: str, name: str, column: str) -> Iterator[object]:
    rows = split_rows(lines, name, quoted=kind == ".csv")
    _, header = next(rows, (0, None))
    if header is None:
        return
    _check_column(column, header, name)
    if header.count(column) > 1:
        raise DataError(
            f"{name} has {header.count(column)} columns {column!r}; expected one. Rename the others"
        )
    index = header.index(column)
    for line, row in rows:
        if len(row) != len(header):  # truncated text, most likely
            raise DataError(
                f"{name}, line {line:,} has {len(row)} fields; the header has {len(header)}. Mend "
                "the line, or quote separators in its text"
            )
        yield row[index]


def _parquet(stream: BinaryIO, name: str, column: str) -> Iterator[object]:
    with open_parquet(stream, name) as file:
        _check_column(column, file.schema_arrow.names, name)
        for batch in file.iter_batches(batch_size=ROWS, columns=[column]):
            yield from batch.column(0).to_pylist()


def _check_column(column: str, there: list[str], name: str) -> None:
    if column not in there:
        raise DataError(
            f"{name} has no column {column!r}; it has {', '.join(map(repr, there[:20]))}. "
            "Name one: --text-column NAME"
        )
