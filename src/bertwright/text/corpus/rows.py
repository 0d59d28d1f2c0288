"""Read documents from JSON lines, tables and `datasets`; each row is a document.

Line breaks within a row end sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError, MissingExtra
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table
from bertwright.rows.lines import normalize_lines
from bertwright.rows.parquet import ROWS
from bertwright.rows.read import FORMS, read_table, rows_of_stream
from bertwright.rows.tables import HEADER_AGAIN, UNQUOTED
from bertwright.text.corpus.documents import split_long_document
from bertwright.text.corpus.report import CorpusReport

GROUP_CHARACTERS = 1 << 20
"""The approximate number of characters of the rows that are passed on at once."""


def read_rows(
    stream: BinaryIO, suffix: str, name: str, config: CorpusConfig, report: CorpusReport
) -> Iterator[list[str]]:
    """Yield the text of the rows of one file, in groups.

    `suffix` is `.jsonl`, `.ndjson`, `.csv`, `.tsv` or `.parquet`; `name` is for messages.

    Raises:
        DataError: a row is malformed, or there is no column `config.text_column` (the message lists
            the columns that exist).
        MissingExtra: Parquet needs pyarrow, which is not installed.
    """
    file = rows_of_stream(stream, name, FORMS[suffix], report)
    if not file.has_text:
        return
    log = BadRowLog(name, option=False)
    table = read_table(file, [config.text_column], log, header=True)
    column = table.named(config.text_column, "--text-column")
    report.note_columns(name, table.columns, column)
    values = (value for _, (value,) in table.rows([column], complete=True))
    yield from _texts(values, name, config, report, file.form == "parquet")
    report.unquoted_tables += UNQUOTED in log.mended
    if again := log.skipped.get(HEADER_AGAIN):
        report.empty_documents += again.count


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
    column = config.text_column
    if rows.column_names is not None:
        table = Table(name, rows.column_names, "a data set", _none, BadRowLog(name, option=False))
        column = table.named(column, "--text-column")
        rows = rows.select_columns([column])
    yield from _texts(_values(rows, column, name), name, config, report, True)


def _none(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
    """Yield no row of a data set, whose rows come in batches (`_values`)."""
    return iter(())


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
        if not isinstance(value, str):
            raise DataError(
                f"{name}, row {number:,}: column {config.text_column!r} holds "
                f"{type(value).__name__}; expected a string. Name another: --text-column"
            )
        if not value or value.isspace():
            report.empty_documents += 1
            continue
        text = normalize_lines(value)
        if count_bytes:
            report.bytes += len(text) if text.isascii() else len(text.encode())
        group.extend(split_long_document(text, report))
        size += len(text)
        if len(group) >= ROWS or size > GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
