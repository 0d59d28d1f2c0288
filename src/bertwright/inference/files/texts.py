"""Read the texts of a file in order, without holding all of them in memory, for verbs that use a
model.

| file | a text is |
|---|---|
| `.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet` | a column's value, or two columns' as a pair |
| any other | a line, which may be empty |

Standard input is a table if a column is named or if it begins with a JSON object, else lines.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bertwright.errors import DataError
from bertwright.rows.bad_rows import BadRowLog, BadRows
from bertwright.rows.columns import NAMES, Table
from bertwright.rows.compressed import BLOCK_BYTES, COMPRESSED_SUFFIXES
from bertwright.rows.json import is_json_lines
from bertwright.rows.lines import ByteCounts, line_groups, read_text
from bertwright.rows.open import name_of, open_bytes, suffix_of
from bertwright.rows.read import open_rows, read_table

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
    counts: ByteCounts = field(default_factory=ByteCounts)
    """What the bytes of the file were."""
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
        table, counts = _table(file, named, log)
        columns = [table.find(text, "texts", "--text")]
        columns += [] if text2 is None else [table.named(text2, "--text2")]
        shown = None if beside is None else table.named(beside, "--color")
        texts = _from_table(table, columns, shown, counts, longest)
        texts.total = _count_lines(file) if suffix_of(file) in (".jsonl", ".ndjson") else None
        return texts
    if named:
        raise DataError(
            f"{path} is read as one text per line and has no columns; name a .jsonl, .csv, .tsv "
            "or .parquet file"
        )
    texts = Texts(log.name, iter(()), log, total=_count_lines(file))
    texts.rows = _lines(file, texts, longest)
    return texts


def open_minimal_pairs(path: str, by: str | None = None) -> Texts:
    """Open a table of minimal pairs, each the good and the bad sentence.

    Args:
        path: the table.
        by: a column whose value is yielded with each pair.

    Raises:
        DataError: there is no such file or column; or, while the pairs are read, a row cannot be
            read.
    """
    if path != "-" and not Path(path).is_file():
        raise DataError(f"no file {path}; --pairs takes a table of good and bad sentences, or -")
    purposes = ("good sentences", "bad sentences")
    named = [*chain(*(group for each in purposes for group in NAMES[each])), *([by] if by else [])]
    log = BadRowLog(name_of(Path(path)), option=False)
    table, counts = _table(Path(path), named, log)
    columns = [table.find(None, purpose, "") for purpose in purposes]
    return _from_table(table, columns, None if by is None else table.named(by, "--by"), counts)


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
    number, arriving = 0, str(path) == "-"
    with open_bytes(path) as file:
        blocks = read_text(file, texts.name, texts.counts, arriving=arriving, old_macs=False)
        for group in line_groups(blocks, texts.name, longest):
            for line, waiting in zip(group, reversed(range(len(group))), strict=True):
                number += 1
                texts.waiting = waiting if arriving else None
                if longest is not None and len(line.encode()) > longest:
                    raise too_long(texts.name, number, longest)
                texts.empty += not line.strip()
                yield line.rstrip("\r"), ""
    if not number:
        raise DataError(f"{texts.name} is empty; expected one text per line")


def too_long(name: str, line: int, longest: int) -> DataError:
    """Return the error for a text that is longer than a verb reads."""
    return DataError(
        f"line {line:,} of {name} has more than {longest:,} bytes; expected one text per line: "
        "split it into lines"
    )


def _table(path: Path, named: Sequence[str], log: BadRowLog) -> tuple[Table, ByteCounts]:
    file = open_rows(path, named)
    if file.form == "text":  # standard input whose header has no known name
        file = replace(file, form="tsv" if "\t" in file.lines.first else "csv")
    return read_table(file, named, log), file.counts


def _from_table(
    table: Table,
    columns: list[str],
    beside: str | None,
    counts: ByteCounts,
    longest: int | None = None,
) -> Texts:
    """Return the texts of a table: one column, or two as pairs."""
    names = [*columns, *([] if beside is None else [beside])]
    if unread := table.unread(names):
        table.log.warn(f"not read: {', '.join(unread)}")
    texts = Texts(table.name, iter(()), table.log, counts=counts)
    texts.rows = _rows(table.rows(names), names, len(columns), texts, longest)
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


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
