"""Read the texts of a file in order, without holding all of them in memory, for verbs that use a
model.

| file | a text is |
|---|---|
| `.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet` | a column's value, or two columns' as a pair |
| any other | a line, which may be empty |

Standard input is a table if a column is named or if it begins with a JSON object, else lines.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from bertwright.errors import DataError
from bertwright.labelled.source import BadRowLog, BadRows
from bertwright.labelled.tables.table import Table, open_form, read_table
from bertwright.rows.compressed import BLOCK_BYTES, COMPRESSED_SUFFIXES
from bertwright.rows.open import name_of, open_bytes, suffix_of
from bertwright.text.corpus.rows import is_json_lines

if TYPE_CHECKING:  # it imports torch, and a wrong file is reported before
    from bertwright.inference.encode import Text

TABLES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
AT_ONCE, CHARACTERS_AT_ONCE = 8192, 1 << 23
"""The most texts, and characters of texts, in memory while their vectors are computed."""


@dataclass
class Texts:
    """Texts that are read lazily, with counts of what was read."""

    name: str
    rows: Iterator[tuple[Text, str]]
    """Texts, each with the value of the column `beside`, or ""."""
    log: BadRowLog
    empty: int = 0
    repaired: int = 0
    """The number of lines with bytes that are not UTF-8."""
    total: int | None = None
    """The approximate number of texts; None if it is not known before they are read."""
    waiting: int | None = None
    """The number of lines of standard input that have arrived and were not yet yielded; None for
    files.
    """

    def groups(self, size: int) -> Iterator[list[Text]]:
        """Yield lists of `size` texts.

        From standard input, a list holds the lines that have arrived, so that a sender need not
        send more lines to get a result.
        """
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
    beside_option: str = "--color",
) -> Texts:
    """Open a file of texts, or `-` (standard input).

    Args:
        path: the file.
        text: the column of the text; None: the column with one of the usual names.
        text2: the column of the second text of pairs.
        beside: a column whose value is yielded with each text.
        bad_rows: whether a row without a text is an error, or is counted and left out.
        option: the option that named the file, for messages.
        longest: the most bytes of a text; None: no limit. A longer line is never read whole.
        names: for some of these columns, alternative names that the column may have in the file.
        beside_option: the option that names the column `beside`, for messages.

    Raises:
        DataError: there is no such file or column; or, while the texts are read, a row cannot be
            read or is longer than `longest`.
    """
    file = Path(path)
    if path != "-" and not file.is_file():
        raise DataError(f"no file {path}; {option} takes a file of texts, or -")
    log = BadRowLog(name_of(file), bad_rows)
    named = [name for name in (text, text2, beside) if name is not None]
    if suffix_of(file) in TABLES or (path == "-" and (named or _is_json_lines())):
        columns = (("--text", text), ("--text2", text2), (beside_option, beside))
        return _from_table(file, columns, log, longest, names or {})
    if named:
        raise DataError(
            f"{path} is read as one text per line and has no columns; name a .jsonl, .csv, .tsv "
            "or .parquet file"
        )
    texts = Texts(log.name, iter(()), log, total=_count_lines(file))
    texts.rows = _lines(file, texts, longest)
    return texts


PAIR_NAMES = {"good": ("sentence_good",), "bad": ("sentence_bad",)}
"""The names of the columns of minimal pairs in BLiMP."""


def open_minimal_pairs(path: str, by: str | None = None) -> Texts:
    """Open a table of minimal pairs, each the good and the bad sentence; see `open_texts`.

    Args:
        path: the table.
        by: a column whose value is yielded with each pair.

    Raises:
        DataError: as `open_texts`.
    """
    return open_texts(
        path, "good", "bad", by, option="--pairs", names=PAIR_NAMES, beside_option="--by"
    )


def bounded(
    texts: Iterable[Text], most: int = AT_ONCE, characters: int = CHARACTERS_AT_ONCE
) -> Iterator[list[Text]]:
    """Yield lists of at most `most` texts with at most `characters` characters together.

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
    """Return whether standard input begins with a JSON object, without consuming any of it."""
    if sys.stdin is None or sys.stdin.buffer.closed:
        return False  # reading it raises the error
    with contextlib.suppress(OSError):
        return is_json_lines(cast(BufferedReader, sys.stdin.buffer).peek())
    return False


def _count_lines(path: Path) -> int | None:
    """Return the number of lines of a plain file; None for standard input and compressed files."""
    if str(path) == "-" or path.suffix.lower() in COMPRESSED_SUFFIXES:
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK_BYTES), b""))


def _lines(path: Path, texts: Texts, longest: int | None) -> Iterator[tuple[Text, str]]:
    number = 0
    with open_bytes(path) as file:
        if str(path) == "-":
            lines = _as_they_come(file, texts, longest)
        else:
            room = -1 if longest is None else longest + len(b"\r\n")
            lines = iter(lambda: file.readline(room), b"")
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if longest is not None and len(line.rstrip(b"\r\n")) > longest:
                raise too_long(texts.name, number, longest)
            text = line.decode("utf-8", "replace")
            texts.repaired += "\ufffd" in text and "\ufffd".encode() not in line
            text = text.rstrip("\r\n")
            texts.empty += not text.strip()
            yield text, ""
    if not number:
        raise DataError(f"{texts.name} is empty; expected one text per line")


def too_long(name: str, line: int, longest: int) -> DataError:
    """Return the error for a text that is longer than a verb reads."""
    return DataError(
        f"line {line:,} of {name} has more than {longest:,} bytes; expected one text per line: "
        "split it into lines"
    )


def _as_they_come(file: BinaryIO, texts: Texts, longest: int | None) -> Iterator[bytes]:
    """Yield the lines of a terminal or a pipe, counting those that have already arrived.

    A line that is longer than `longest` is yielded only in part.
    """
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
        for texts.waiting in reversed(range(len(lines))):
            yield lines[-1 - texts.waiting]
    if any(begun):
        yield b"".join(begun)


def _from_table(
    path: Path,
    columns: Sequence[tuple[str, str | None]],
    log: BadRowLog,
    longest: int | None,
    others: Mapping[str, Sequence[str]],
) -> Texts:
    named = [name for _, name in columns if name is not None]
    table = _table(path, [*named, *chain.from_iterable(others.values())], log)
    names = []
    for option, column in columns:
        if column is not None and column in others:
            usual = [column, *others[column]]
            existing = next((name for name in usual if table.has(name)), None)
            if existing is None:
                raise DataError(
                    f"{table.name} has no column {' or '.join(usual)}; it has "
                    f"{', '.join(table.columns)}. Give the column this name"
                )
            names.append(table.named(existing, option))
        elif column is not None:
            names.append(table.named(column, option))
        elif option == "--text":
            names.append(table.find(None, "texts", option))
    total = _count_lines(path) if suffix_of(path) in (".jsonl", ".ndjson") else None
    texts = Texts(log.name, iter(()), log, total=total)
    rows = table.read(names)
    if table.unread:
        log.warn(f"not read: {', '.join(table.unread)}")
    texts.rows = _rows(rows, names, 1 if columns[1][1] is None else 2, texts, longest)
    return texts


def _rows(
    rows: Iterator[tuple[int, list[Any]]],
    names: list[str],
    of_text: int,
    texts: Texts,
    longest: int | None,
) -> Iterator[tuple[Text, str]]:
    """Yield the rows of a table, in which the first `of_text` columns are the text or pair."""
    log = texts.log
    for line, values in rows:
        parts = [_string(value) for value in values[:of_text]]
        if any(part is None for part in parts):
            bad = parts.index(None)
            log.bad(line, "no text", f"{values[bad]!r:.60} in the column {names[bad]}", "a text")
            continue
        clean = [part or "" for part in parts]
        if longest is not None and any(len(part.encode()) > longest for part in clean):
            raise too_long(log.name, line, longest)
        texts.empty += not any(part.strip() for part in clean)
        beside = "" if len(values) == of_text or values[of_text] is None else str(values[of_text])
        yield (clean[0] if of_text == 1 else (clean[0], clean[1])), beside


def _table(path: Path, named: list[str], log: BadRowLog) -> Table:
    source, form = open_form(path, named)
    if form == "text":  # standard input whose header has no known name
        form = "tsv" if "\t" in source.first else "csv"
    return read_table(source, form, named, log)


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
