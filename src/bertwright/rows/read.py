"""Open a file, detect its format, and read it as a table.

Three things determine the format, in this order: an option, the suffix (`FORMS`), the first line.
A file without a known suffix is TSV or CSV if its first line is a header with a chosen or a known
name (CSV needs two); otherwise it is text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, get_args

from bertwright.config.task import Form
from bertwright.errors import DataError
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table, is_known, plain
from bertwright.rows.json import json_table, objects_table
from bertwright.rows.lines import ByteCounts, TextLines, read_lines
from bertwright.rows.open import name_of, open_bytes, suffix_of
from bertwright.rows.parquet import parquet_table
from bertwright.rows.tables import EXCEL_SEPARATOR, csv_delimiter, delimited_table

FORMS: dict[str, Form] = {f".{form}": form for form in get_args(Form) if form != "text"}
"""The format of each suffix."""
FORMS |= {".ndjson": "jsonl"}
FORMS |= dict.fromkeys((".conll03", ".bio", ".iob", ".iob2", ".bmes", ".bioes"), "conll")
PREFIX = "__label__"
"""The prefix of labels in fastText's files."""
_LABEL_WORDS = re.compile(rf"(?<!\S){PREFIX}\S*\s*")
_NAME = re.compile(r"\s?[\w#.-]+( [\w#.-]+)?\s?")


@dataclass(frozen=True)
class MemoryRows:
    """Rows in memory that are read in place of a file; the name is for messages."""

    name: str
    rows: list[dict[str, Any]]
    counts: ByteCounts = field(default_factory=ByteCounts)
    """What was malformed in the files that the rows are from."""
    warnings: tuple[str, ...] = ()
    """Warnings of what is not among the rows."""


@dataclass(frozen=True)
class RowFile:
    """An opened file of a known format."""

    name: str
    form: Form
    content: TextLines | BinaryIO | MemoryRows
    """Its lines; or the bytes of Parquet, or rows in memory, which have none."""
    counts: ByteCounts
    """What its bytes were; complete when all rows are read."""
    quotes: bool = True
    """Whether quoted fields of TSV are recognized; not if an option says that it is TSV."""

    @property
    def has_text(self) -> bool:
        """Whether there is a first row or line."""
        return not isinstance(self.content, TextLines) or bool(self.content.first)

    @property
    def lines(self) -> TextLines:
        """The lines of a file of text."""
        assert isinstance(self.content, TextLines)
        return self.content


def open_rows(
    path: Path | MemoryRows,
    named: Sequence[str] = (),
    form: Form | None = None,
    counts: ByteCounts | None = None,
) -> RowFile:
    """Open a file, which may be compressed, `-`, or rows in memory, and read its first lines.

    `named` are the columns that options name, or that training used; `form` is the format that an
    option names; `counts` receives what is read.

    Raises:
        DataError: the file is missing, a folder, empty, binary or not UTF-8.
    """
    if isinstance(path, MemoryRows):
        return RowFile(path.name, "json", path, path.counts)
    known = form or FORMS.get(suffix_of(path))
    counts = ByteCounts() if counts is None else counts
    file = rows_of_stream(open_bytes(path), name_of(path), known, counts, named)
    if not file.has_text:
        raise DataError(f"{file.name} is empty; expected rows, or lines of text")
    return replace(file, quotes=form != "tsv")


def rows_of_stream(
    stream: BinaryIO, name: str, form: Form | None, counts: ByteCounts, named: Sequence[str] = ()
) -> RowFile:
    """Return the file of an open stream, whose format is detected if `form` is None; `counts`
    receives what is read.
    """
    if form == "parquet":
        return RowFile(name, form, stream, counts)
    lines = read_lines(stream, name, counts)
    return RowFile(name, form or _by_first_line(lines.first, named), lines, counts)


def _by_first_line(line: str, named: Sequence[str]) -> Form:
    if EXCEL_SEPARATOR.fullmatch(line):
        return "csv"
    if line.lstrip().startswith(PREFIX):
        return "fasttext"
    if line.lstrip().startswith(('{"', "[{", "{ ")) or line.strip() in ("{", "["):
        return "json"
    names, cells = {*map(plain, named)}, line.split("\t")
    if len(cells) > 1:
        is_table = any(is_known(cell) or plain(cell) in names for cell in cells)
        return "tsv" if is_table or any(map(str.isdecimal, named)) else "text"
    if plain(line) in names:
        return "tsv"
    cells = next(csv.reader([line], delimiter=csv_delimiter(line)), [])
    known = [cell for cell in cells if is_known(cell) or plain(cell) in names]
    return "csv" if len(known) > 1 and all(map(_NAME.fullmatch, cells)) else "text"


def read_table(
    file: RowFile,
    named: Sequence[str],
    log: BadRowLog,
    *,
    header: bool | None = None,
    kept: bool = False,
) -> Table:
    """Return the table of a file.

    Args:
        file: the file; text is read as TSV.
        named: the columns that options name, or that training used.
        log: counts the bad rows.
        header: whether the first row of CSV or TSV names the columns; None: if it has a known or
            named one.
        kept: whether all rows are kept in memory.

    Raises:
        DataError: the file is not such a table.
        MissingExtra: the format needs pyarrow, which is not installed.
    """
    content = file.content
    if isinstance(content, MemoryRows):
        return objects_table(content.rows, log)
    if not isinstance(content, TextLines):
        return parquet_table(content, log, kept=kept)
    if file.form in ("json", "jsonl"):
        return json_table(content, "json" if file.form == "json" else "jsonl", log, file.counts)
    if file.form == "fasttext":
        return _fasttext(content, log)
    return delimited_table(
        content,
        "csv" if file.form == "csv" else "tsv",
        named,
        log,
        header=header,
        quotes=file.quotes,
    )


def _fasttext(lines: TextLines, log: BadRowLog) -> Table:
    """Read fastText's lines: words that begin with `__label__` are labels, the others are the
    text.
    """

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        for number, line in lines.numbered():
            words = line.split()
            if not words:
                continue
            labels = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
            text = _LABEL_WORDS.sub("", line).strip()
            row = {"text": text, "label": labels[0] if len(labels) == 1 else labels}
            yield number, [row[name] for name in names]

    return Table(lines.name, ["text", "label"], "fastText's lines", rows, log)


def plain_text(lines: TextLines, pair: bool, tabs: bool, log: BadRowLog) -> Table:
    """Read one text from each line, or a pair of texts separated by a tab. `tabs` allows tabs in a
    text.
    """
    if not tabs and not pair and "\t" in lines.first:
        raise DataError(
            f"{lines.name} has a tab in its first line, but no header. Name the column: --text 1; "
            "or read each whole line as a text: --format text"
        )

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        for number, line in lines.numbered():
            texts = line.split("\t") if pair else [line]
            if not line.strip():
                log.skipped.add(number, "empty line")
            elif len(texts) == 1 + pair:
                yield number, [texts[columns.index(name)] for name in names]
            else:
                expected = "two texts separated by one tab, because the model was trained on pairs"
                log.bad(number, "no pair of texts", "", expected)

    columns = ["text", "text2"] if pair else ["text"]
    return Table(lines.name, columns, "plain text", rows, log)
