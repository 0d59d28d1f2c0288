"""Files whose rows are pairs, a source and its target: TSV, CSV, JSON lines and Parquet.

Options name the columns. Without options, the columns are recognized by their names (`source` and
`target`, or the codes of two languages), or are the only two that hold text. JSON lines and Parquet
may also hold a pair as `{"translation": {"de": "...", "en": "..."}}`, as data sets of Hugging Face
do. Rows are read one after the other in bounded memory. A byte that is not UTF-8 is an error, as in
two files of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any, BinaryIO

from bertwright.errors import ConfigError, DataError
from bertwright.rows.lines import decoded_lines, replace_surrogates
from bertwright.rows.open import nearest_name, open_bytes
from bertwright.rows.parquet import ROWS, open_parquet, parquet_rows
from bertwright.text.corpus.find import ROW_SUFFIXES, format_of
from bertwright.text.corpus.languages import is_language
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.corpus.rows import json_object, split_table
from bertwright.text.long_rows import LONGEST_ROW, LongRow

HEAD_ROWS, HEAD_CHARACTERS = 100, 1 << 20
"""The number of rows, or of their characters, that are examined to find the columns."""
NESTED = "translation"
"""The key whose value is the pair in data sets of Hugging Face."""
EXAMPLE = '{"source": "...", "target": "..."}'
TABLES = (".csv", ".tsv")
_SOURCE = re.compile(r"(source|src)([ _-](text|sentence))?", re.IGNORECASE)
_TARGET = re.compile(r"(target|tgt|trg)([ _-](text|sentence))?", re.IGNORECASE)
_ID = re.compile(r"[\w.:/#-]*\d[\w.:/#-]*|[\da-fA-F-]{8,}")
"""The form of an id: a number, a code with a digit such as `u17`, or a UUID."""
_NAME = re.compile(r"[^\W\d][\w.#-]*( [\w.#-]+)?")
"""The form of a column's name in a header: one word or two."""

Pair = tuple[int, str, str]
"""The number of the line (in Parquet, of the row) of a pair, from 1; the source; the target."""


@dataclass(frozen=True)
class PairFile:
    """A file of pairs, and its columns."""

    path: Path
    source: str
    target: str
    """The names of the columns; in a table without a header, their numbers from 1."""
    indices: tuple[int, int] = (0, 1)
    """The indices of the columns in a row of a table."""
    has_header: bool = False
    """Whether the first row of a table names the columns."""
    nested: bool = False
    """Whether the columns are keys of `translation`."""
    note: str = ""
    """A note for the user on how the columns were found; may be empty."""

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of the source and the target."""
        return self.source, self.target


def open_pairs(path: Path, source: str | None = None, target: str | None = None) -> PairFile:
    """Find the columns of a file of pairs.

    The columns are those that are named (in a table, also by their numbers from 1), otherwise those
    that are recognized by their names, otherwise the only two that hold text.

    Raises:
        ConfigError: only one column is named, or the same for both; or the extension is not that of
            a file of rows.
        DataError: there is no such file, there are no such columns, or it is not clear which they
            are. The `options` of the error are those that probably name them.
        MissingExtra: a Parquet file needs pyarrow, which is not installed.
    """
    if (source is None) != (target is None):
        raise ConfigError("name both columns: --source NAME --target NAME")
    if source is not None and source == target:
        raise ConfigError(f"--source and --target are both {source!r}; expected two columns")
    named = None if source is None or target is None else (source, target)
    _require_rows(path)
    head = _head(path)
    if not head:
        raise DataError(f"{path} is empty; expected pairs")
    return (_in_table if format_of(path) in TABLES else _in_objects)(path, head, named)


def clear_pairs(inputs: Sequence[str], text_column: str) -> PairFile | None:
    """Return the file of pairs if a corpus is one, else None.

    The result is None if the corpus is a file of another kind, or several files, or has the column
    `text_column`, or has two columns of which one is much shorter, as labels are.

    Raises:
        DataError: the corpus has no column `text_column`, and two of its columns probably are
            source and target.
    """
    path = Path(inputs[0]) if len(inputs) == 1 else Path()
    if text_column != "text" or format_of(path) not in ROW_SUFFIXES or not path.is_file():
        return None
    head = _head(path)
    if not head or text_column in head[0]:
        return None
    try:
        pairs = open_pairs(path)
    except DataError as error:
        if not error.options:
            return None
        raise DataError(
            f"{path} has no column {text_column!r} (--text-column NAME); as pairs, {error}",
            error.options,
        ) from error
    if format_of(path) in TABLES:
        columns = _cells(head)
    else:
        columns = {name: [row.get(name) for row in head] for name in pairs.columns}
    if pairs.has_header or pairs.nested or _known(columns):
        return pairs
    return pairs if _most_alike(columns) else None


def read_pair_rows(
    pairs: PairFile, stream: BinaryIO, report: CorpusReport | None = None
) -> Iterator[Pair]:
    """Yield the pairs of a file, whose bytes are `stream`, without the white space around them. A
    missing side (null) is empty.

    Raises:
        DataError: a row cannot be read, because it has another number of fields, is no JSON, has a
            side that is no string, or has bytes that are not UTF-8; the message has its line.
    """
    report = CorpusReport() if report is None else report
    kind = format_of(pairs.path)
    if kind == ".parquet":
        rows = _parquet_rows(pairs, stream)
    elif kind in TABLES:
        rows = _table_rows(pairs, bounded_lines(stream, pairs.path), kind, report)
    else:
        rows = _json_rows(pairs, bounded_lines(stream, pairs.path))
    for number, values in rows:
        texts = []
        for column, value in zip(pairs.columns, values, strict=True):
            if value is not None and not isinstance(value, str):
                raise DataError(
                    f"{where(pairs, number)}: the column {column!r} holds a "
                    f"{type(value).__name__}; expected a string"
                )
            text = value or ""
            if (mended := replace_surrogates(text)) is not text:
                report.invalid_utf8 += mended.count("\ufffd") - text.count("\ufffd")
            texts.append(mended.strip())
        yield number, texts[0], texts[1]


def where(pairs: PairFile, number: int) -> str:
    """Return the name of a row in messages."""
    return f"{pairs.path}, {'row' if format_of(pairs.path) == '.parquet' else 'line'} {number:,}"


def pair_texts(pairs: PairFile, stream: BinaryIO, report: CorpusReport) -> Iterator[list[str]]:
    """Yield the texts of both sides in groups, as documents of a corpus."""
    rows = read_pair_rows(pairs, stream, report)
    while group := list(islice(rows, ROWS)):
        texts = [text for _, *both in group for text in both]
        report.bytes += sum(len(text.encode()) for text in texts)
        yield texts


def bounded_lines(stream: BinaryIO, path: Path) -> Iterator[str]:
    """Yield the lines of a stream of UTF-8, without their line ends.

    Raises:
        DataError: a line is not UTF-8, or has over `LONGEST_ROW` bytes.
    """

    def lines() -> Iterator[bytes]:
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_ROW + 1), b""), 1):
            if len(line) > LONGEST_ROW:
                raise DataError(
                    f"line {number:,} of {path} has over {LONGEST_ROW:,} bytes; expected a "
                    "sentence, or a pair of sentences, a line"
                )
            yield line.removesuffix(b"\n").removesuffix(b"\r")

    return decoded_lines(lines(), path)


def _require_rows(path: Path) -> None:
    if str(path) == "-":
        raise DataError(
            "pairs cannot be read from standard input, as their columns are looked at first; write "
            "them to a file that is named .tsv, .csv or .jsonl"
        )
    if not path.is_file():
        raise DataError(f"no such file: {path}{nearest_name(path)}")
    if format_of(path) not in ROW_SUFFIXES:
        raise ConfigError(
            f"{path} has an unknown extension for a file of pairs; expected one of "
            f"{' '.join(ROW_SUFFIXES)}, also compressed, or two files of lines: --parallel SOURCE "
            "TARGET"
        )


def _head(path: Path) -> list[Any]:
    """Return the first rows: lists of cells for a table, otherwise objects.

    They end before a later row that cannot be read, whose error is raised when the file is read.
    """
    held: list[Any] = []
    size = 0
    with open_bytes(path) as stream:
        rows = _any_rows(path, stream)
        try:
            for row in islice(rows, HEAD_ROWS):
                held.append(row)
                size += len(str(row))
                if size > HEAD_CHARACTERS:
                    break
        except DataError:
            if not held:
                raise
        finally:
            rows.close()
    return held


def _any_rows(path: Path, stream: BinaryIO) -> Any:
    """Yield all columns of the rows of any format."""
    kind = format_of(path)
    if kind == ".parquet":
        with open_parquet(stream, str(path)) as file:
            names = file.schema_arrow.names
            for row in parquet_rows(file, names):
                yield dict(zip(names, row, strict=True))
    elif kind in TABLES:
        lines = bounded_lines(stream, path)
        for number, cells in split_table(lines, kind, str(path), CorpusReport()):
            yield _held(cells, f"{path}, line {number:,}")
    else:
        for _, found in _objects(bounded_lines(stream, path), path):
            yield found


def _in_table(path: Path, head: list[list[str]], named: tuple[str, str] | None) -> PairFile:
    """Find the columns of CSV or TSV, whose first row may be a header."""
    first = [cell.strip() for cell in head[0]]
    if len(first) < 2:
        raise DataError(
            f"{path} has one column, as its first line shows; expected a source and a target, in "
            "a .tsv with a tab between"
        )
    under = {
        name: [row[at] for row in head[1:] if len(row) == len(first)]
        for at, name in enumerate(first)
    }
    known = _known(under) if all(map(_NAME.fullmatch, first)) else None
    columns = _matched(named or known or (), first)
    if columns is not None:
        for name in columns:
            if first.count(name) > 1:
                raise DataError(f"{path}: the header names {name!r} twice; rename one")
        indices = first.index(columns[0]), first.index(columns[1])
        return PairFile(path, *columns, indices, True, note="" if named else _note(path, columns))
    if named is not None:
        for name in named:
            if not (name.isdecimal() and 1 <= int(name) <= len(first)):
                raise _unclear(path, f"has no column {name!r}", _cells(head))
        note = f"{path}: the first line names the columns and is no pair" if known else ""
        return PairFile(
            path, *named, (int(named[0]) - 1, int(named[1]) - 1), bool(known), note=note
        )
    cells = _cells(head)
    if len(first) > 2 or any(map(_are_ids, cells.values())):
        raise _unclear(path, UNCLEAR, cells)
    note = (
        f"{path} is read without a header: column 1 is the source and column 2 the target, as in "
        f"its first pair, {_short(first[0])} and {_short(first[1])} (if these are names of "
        f"columns, give them as --source NAME --target NAME)"
    )
    return PairFile(path, "1", "2", note=note)


def _in_objects(path: Path, head: list[dict[str, Any]], named: tuple[str, str] | None) -> PairFile:
    """Find the columns of JSON lines or Parquet, which are keys."""
    nested = isinstance(head[0].get(NESTED), dict)
    rows = [row[NESTED] for row in head if isinstance(row.get(NESTED), dict)] if nested else head
    names = list(dict.fromkeys(key for row in rows for key in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    if named is not None:
        if (found := _matched(named, names)) is None:
            wrong = named[0] if named[0] not in names else named[1]
            raise _unclear(path, f"has no column {wrong!r}", columns)
        return PairFile(path, *found, nested=nested)
    texts = [
        name
        for name, values in columns.items()
        if any(values)
        and all(isinstance(value, str | None) for value in values)
        and not _are_ids(values)
    ]
    known = _known({name: columns[name] for name in texts}) or (texts if len(texts) == 2 else None)
    if known is None:
        raise _unclear(path, UNCLEAR, columns)
    found = known[0], known[1]
    return PairFile(path, *found, nested=nested, note=_note(path, found))


def _known(columns: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """Return the columns that are recognized by their names: a source and a target, or two
    languages in the order of the columns. `id` is Indonesian, unless its values are ids.
    """
    sources = [name for name in columns if _SOURCE.fullmatch(name.strip())]
    targets = [name for name in columns if _TARGET.fullmatch(name.strip())]
    if len(sources) == len(targets) == 1:
        return sources[0], targets[0]
    codes = [name for name in columns if is_language(name) and not _are_ids(columns[name])]
    if len(codes) > 2:
        codes = [name for name in codes if name.strip().lower() != "id"]
    return (codes[0], codes[1]) if len(codes) == 2 else None


def _are_ids(values: Sequence[Any]) -> bool:
    """Return whether the values identify rows: numbers, codes with digits, UUIDs."""
    texts = [str(value).strip() for value in values if value is not None]
    return bool(texts) and all(map(_ID.fullmatch, texts))


def _matched(wanted: Sequence[str], there: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns with these names, whose case may differ if only one column fits. None if
    there are no such columns, or if both names are one column.
    """
    matches = []
    for name in wanted:
        near = [column for column in there if column.strip().lower() == name.strip().lower()]
        if name not in there and len(near) != 1:
            return None
        matches.append(name if name in there else near[0])
    return (matches[0], matches[1]) if len({*matches}) == 2 else None


def _objects(lines: Iterable[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            if number == 1 and line.lstrip().startswith("["):
                raise DataError(f"{path} is a JSON array; expected an object a line, as {EXAMPLE}")
            yield number, json_object(line, f"{path}, line {number:,}", EXAMPLE)


def _json_rows(pairs: PairFile, lines: Iterable[str]) -> Iterator[tuple[int, list[Any]]]:
    for number, row in _objects(lines, pairs.path):
        yield number, _values(row, pairs, number)


def _parquet_rows(pairs: PairFile, stream: BinaryIO) -> Iterator[tuple[int, list[Any]]]:
    wanted = [NESTED] if pairs.nested else [*pairs.columns]
    with open_parquet(stream, str(pairs.path)) as file:
        for number, values in enumerate(parquet_rows(file, wanted), 1):
            yield number, _values(dict(zip(wanted, values, strict=True)), pairs, number)


def _values(row: dict[str, Any], pairs: PairFile, number: int) -> list[Any]:
    """Return the two values of an object."""
    if pairs.nested:
        row = row.get(NESTED) or {}
    for column in pairs.columns:
        if not isinstance(row, dict) or column not in row:
            inside = f" in an object {NESTED!r}" if pairs.nested else ""
            raise DataError(f"{where(pairs, number)} has no column {column!r}{inside}")
    return [row[column] for column in pairs.columns]


def _table_rows(
    pairs: PairFile, lines: Iterator[str], kind: str, report: CorpusReport
) -> Iterator[tuple[int, list[Any]]]:
    first, second = pairs.indices
    width = 0
    for number, cells in split_table(lines, kind, str(pairs.path), report):
        row = _held(cells, where(pairs, number))
        if not width:
            width = len(row)
            if pairs.has_header:
                continue
        if len(row) == width:
            yield number, [row[first], row[second]]
        elif any(map(str.strip, row)):
            raise DataError(
                f"{where(pairs, number)} has {len(row)} field{'s' * (len(row) != 1)}; the first "
                f"line has {width}. Mend or remove the line, or quote separators in its text"
            )
        else:
            yield number, ["", ""]


def _held(row: list[str] | LongRow, place: str) -> list[str]:
    """Return the cells of a row.

    Raises:
        DataError: the row is too long for memory.
    """
    if isinstance(row, LongRow):
        raise DataError(f"{place}: a row has over {LONGEST_ROW:,} characters; expected a pair")
    return row


UNCLEAR = "does not show which columns are the source and the target"


def _unclear(path: Path, what: str, columns: Mapping[str, Sequence[Any]]) -> DataError:
    """Return the error for columns that are not found, with the options that probably name them."""
    names = ", ".join(map(_short, islice(columns, 10))) + (", ..." if len(columns) > 10 else "")
    likely = _most_alike(columns)
    return DataError(
        f"{path} {what}; it has {names}. Name them: --source NAME --target NAME",
        ("--source", likely[0], "--target", likely[1]) if likely else (),
    )


def _cells(head: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return the columns of a table by their numbers, or by their names if the first row looks like
    a header.
    """
    first = [cell.strip() for cell in head[0]]
    rows = [row for row in head[1:] if len(row) == len(first)]
    if rows and len({*first}) == len(first) and all(map(_NAME.fullmatch, first)):
        return {name: [row[at] for row in rows] for at, name in enumerate(first)}
    return {str(at + 1): [cell, *(row[at] for row in rows)] for at, cell in enumerate(first)}


def _most_alike(columns: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """Return the two columns whose texts are most similar in length, as those of pairs are.

    The result is None if the texts of one are on average three times as long as those of the other,
    or longer. Columns of numbers, or of values that repeat often, as labels do, are not texts.
    """
    lengths = {}
    for name, values in columns.items():
        texts = [value.strip() for value in values if isinstance(value, str)]
        are_numbers = all(re.fullmatch(r"[\d.,:+-]*", text) for text in texts)
        if 2 * len({*texts}) > len(texts) and not are_numbers and not _are_ids(texts):
            lengths[name] = sum(map(len, texts)) / len(texts)
    ratios = {
        pair: max(lengths[name] for name in pair) / min(lengths[name] for name in pair)
        for pair in combinations(lengths, 2)
    }
    best = min(ratios, key=lambda pair: ratios[pair], default=None)
    return best if best and ratios[best] < 3 else None


def _note(path: Path, columns: tuple[str, str]) -> str:
    return (
        f"{path}: the column {columns[0]!r} is taken as the source and {columns[1]!r} as the "
        "target (--source NAME --target NAME name others)"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
