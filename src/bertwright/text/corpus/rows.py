"""Read documents from JSON lines, tables and `datasets`; each row is a document.

Line breaks within a row end sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError, MissingExtra
from bertwright.rows.lines import normalize_lines, read_text, replace_surrogates
from bertwright.rows.parquet import ROWS, open_parquet, parquet_rows
from bertwright.rows.quotes import AHEAD_CHARACTERS, AHEAD_LINES, are_quoted
from bertwright.rows.tables import EXCEL_SEPARATOR, csv_delimiter
from bertwright.text.corpus.documents import MAX_DOCUMENT_CHARACTERS, split_long_document
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.long_rows import (
    LONGEST_ROW,
    LongRow,
    LongText,
    field_of_row,
    split_long_csv,
    split_long_lines,
    string_of_object,
)

GROUP_CHARACTERS = 1 << 20
"""The approximate number of characters of the rows that are passed on at once."""


def read_rows(
    stream: BinaryIO, kind: str, name: str, config: CorpusConfig, report: CorpusReport
) -> Iterator[list[str]]:
    """Yield the text of the rows of one file, in groups; memory is bounded, however long a row is.

    `kind` is `.jsonl`, `.ndjson`, `.csv`, `.tsv` or `.parquet`; `name` is for messages.

    Raises:
        DataError: a row is malformed, or there is no column `config.text_column` (the message lists
            the columns that exist).
        MissingExtra: Parquet needs pyarrow, which is not installed.
    """
    if kind == ".parquet":
        values = _parquet(stream, name, config.text_column, report)
    else:
        lines = split_long_lines(read_text(stream, name, report))
        if kind in (".jsonl", ".ndjson"):
            values = _json_values(lines, name, config.text_column, report)
        else:
            values = _table_values(lines, kind, name, config.text_column, report)
    yield from _texts(values, name, config, report, kind == ".parquet")


def is_json_lines(head: bytes) -> bool:
    """Return whether a stream without a name begins like a JSON object, with `{"`."""
    return re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"', head) is not None


def read_dataset(name: str, config: CorpusConfig, report: CorpusReport) -> Iterator[list[str]]:
    """Yield the text of `hf:NAME[@CONFIG][:SPLIT]` in groups of rows; the default split is train.

    Raises:
        MissingExtra: `datasets` is not installed.
        DataError: there is no such data set, split or column.
    """
    try:
        import datasets
        from huggingface_hub import HfApi  # which `datasets` needs
    except ImportError as error:
        raise MissingExtra("hf", "datasets", f"reading {name}") from error
    dataset, _, split = name.removeprefix("hf:").partition(":")
    dataset, _, subset = dataset.partition("@")
    split = split or "train"
    if not Path(dataset).exists() and not datasets.config.HF_HUB_OFFLINE:
        try:
            # fail at once, because `datasets` would retry for half a minute
            HfApi().repo_info(dataset, repo_type="dataset", timeout=10)
        except Exception as error:  # any error of HTTP or of the library
            raise DataError(
                f"no data set {dataset} can be found on the Hugging Face hub ({_reason(error)}); "
                "check the name and the network, or give files"
            ) from error
    try:
        rows = datasets.load_dataset(dataset, subset or None, split=split, streaming=True)
    except Exception as error:  # any error of the library, of HTTP or of the system
        raise DataError(
            f"{name}: split {split!r} cannot be read: {_reason(error)}; a configuration and a "
            "split are named as hf:NAME@CONFIG:SPLIT"
        ) from error
    if rows.column_names is not None:
        _check_column(config.text_column, rows.column_names, name)
        rows = rows.select_columns([config.text_column])
    yield from _texts(_values(rows, config.text_column, name), name, config, report, True)


def _reason(error: Exception) -> str:
    """Return the message of a library's error on one line, without its usage examples."""
    return " ".join(str(error).partition("Example")[0].split()) or type(error).__name__


def _values(rows: Any, column: str, name: str) -> Iterator[object]:
    count = 0
    try:
        for batch in rows.iter(ROWS):
            values = batch.get(column, ())
            count += len(values)
            yield from values
    except Exception as error:  # a broken connection, a damaged file
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
    """Yield the checked, normalized and split text of the rows."""
    group: list[str] = []
    size = 0
    for number, value in enumerate(values, 1):
        if value is None:
            report.empty_documents += 1
            continue
        if isinstance(value, LongText):
            if group:
                yield group
                group, size = [], 0
            yield from _long_documents(value, report)
            continue
        if not isinstance(value, str):
            raise DataError(
                f"{name}, row {number:,}: column {config.text_column!r} holds "
                f"{type(value).__name__}; expected a string. Name another: --text-column"
            )
        if not value or value.isspace():
            report.empty_documents += 1
            continue
        text = _mended(value, report)
        if count_bytes:
            report.bytes += len(text) if text.isascii() else len(text.encode())
        group.extend(split_long_document(text, report))
        size += len(text)
        if len(group) >= ROWS or size > GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _mended(value: str, report: CorpusReport) -> str:
    """Return the text with line ends as `\\n` and without lone surrogates, which are counted."""
    text = normalize_lines(value)
    if text.isascii():
        return text
    mended = replace_surrogates(text)
    if mended is not text:
        report.invalid_utf8 += mended.count("\ufffd") - text.count("\ufffd")
    return mended


def _long_documents(value: LongText, report: CorpusReport) -> Iterator[list[str]]:
    """Yield a row that is too long for memory as documents of the largest size."""
    held = ""
    for part in value.parts:
        held += part
        if len(held) > MAX_DOCUMENT_CHARACTERS:
            *whole, held = split_long_document(held, report)
            yield [_mended(text, report) for text in whole]
    yield [_mended(held, report)]


def _json_values(
    lines: Iterable[str | LongText], name: str, column: str, report: CorpusReport
) -> Iterator[object]:
    is_first = True
    for number, line in enumerate(lines, 1):
        if isinstance(line, LongText):
            where = f"{name}, line {number:,}"
            yield LongText(string_of_object(line.parts, column, where))
            continue
        if not line.strip():
            continue
        row = json_object(line, f"{name}, line {number:,}", f'{{"{column}": "..."}}')
        if column not in row:
            _check_column(column, list(row), f"{name}, line {number:,}")
        if is_first:
            report.note_columns(name, row, column)
            is_first = False
        yield row[column]


def json_object(line: str, where: str, example: str) -> dict[str, Any]:
    """Return the JSON object in a line.

    Raises:
        DataError: the line is not a JSON object. `where` names the line in the message, and
            `example` shows what was expected.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError alone: a number without end
        raise DataError(f"{where} is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(
            f"{where} is a JSON {type(row).__name__}; expected an object like {example}"
        )
    return row


def _table_values(
    lines: Iterator[str | LongText], kind: str, name: str, column: str, report: CorpusReport
) -> Iterator[object]:
    rows = split_table(lines, kind, name, report)
    _, header = next(rows, (0, None))
    if header is None:
        return
    if isinstance(header, LongRow):
        raise DataError(
            f"{name}: the first row has over {LONGEST_ROW:,} characters; expected a header that "
            f"names the columns, {column!r} among them (--text-column)"
        )
    _check_column(column, header, name)
    if header.count(column) > 1:
        raise DataError(
            f"{name} has {header.count(column)} columns {column!r}; expected one. Rename the others"
        )
    report.note_columns(name, header, column)
    index = header.index(column)
    for line, row in rows:
        if isinstance(row, LongRow):
            where = f"{name}, line {line:,}"
            yield LongText(field_of_row(row, index, len(header), where))
            continue
        if len(row) != len(header):  # truncated text, most likely
            raise DataError(
                f"{name}, line {line:,} has {len(row)} fields; the header has {len(header)}. Mend "
                "the line, or quote separators in its text"
            )
        yield row[index]


Row = tuple[int, list[str] | LongRow]


def split_table(
    lines: Iterator[str | LongText], kind: str, name: str, report: CorpusReport
) -> Iterator[Row]:
    """Return an iterator over the rows of CSV or TSV that are not empty, with the line that each
    begins at.

    A first line `sep=;`, as Excel writes it, names the separator.
    """
    first, begin = next(lines, None), 1
    while isinstance(first, str) and not first.strip():
        first, begin = next(lines, None), begin + 1
    if first is None:
        return iter(())
    separator = EXCEL_SEPARATOR.fullmatch(first) if isinstance(first, str) else None
    if separator:
        return split_long_csv(lines, name, separator[1], begin + 1)
    lines = chain([first], lines)
    if kind == ".csv":
        delimiter = csv_delimiter(first) if isinstance(first, str) else ","
        return split_long_csv(lines, name, delimiter, begin)
    return _split_tsv(lines, name, begin, report)


def _split_tsv(
    lines: Iterator[str | LongText], name: str, begin: int, report: CorpusReport
) -> Iterator[Row]:
    """Yield the rows of TSV.

    Fields are unquoted if the file is quoted as in CSV, which is counted; otherwise a quote is an
    ordinary character.
    """
    number = begin
    for number, line in enumerate(lines, begin):
        if isinstance(line, str) and '"' in line:
            break
        yield from _split_tabs([line], number)
    else:
        return
    ahead: list[str | LongText] = [line]
    texts, size = [line], len(line)
    while len(texts) < AHEAD_LINES and size < AHEAD_CHARACTERS:
        if (following := next(lines, None)) is None:
            break
        ahead.append(following)
        if isinstance(following, LongText):
            break
        texts.append(following)
        size += len(following)
    whole = len(texts) == len(ahead) < AHEAD_LINES and size < AHEAD_CHARACTERS
    rest = chain(ahead, lines)
    if are_quoted(texts, from_start=number == begin, whole=whole):
        report.unquoted_tables += 1
        yield from split_long_csv(rest, name, "\t", number)
    else:
        yield from _split_tabs(rest, number)


def _split_tabs(lines: Iterable[str | LongText], begin: int) -> Iterator[Row]:
    for number, line in enumerate(lines, begin):
        if isinstance(line, LongText):
            yield number, LongRow(chain(line.parts, ["\n"]), "\t", False)
        elif line:
            yield number, line.split("\t")


def _parquet(stream: BinaryIO, name: str, column: str, report: CorpusReport) -> Iterator[object]:
    with open_parquet(stream, name) as file:
        _check_column(column, file.schema_arrow.names, name)
        report.note_columns(name, file.schema_arrow.names, column)
        for (value,) in parquet_rows(file, [column]):
            yield value


def _check_column(column: str, there: list[str], name: str) -> None:
    if column not in there:
        raise DataError(
            f"{name} has no column {column!r}; it has {', '.join(map(repr, there[:20]))}. "
            "Name one: --text-column NAME"
        )
