"""Files whose rows are pairs, a source and its target: TSV, CSV, JSON lines and Parquet.

Options name the columns. Without options, the columns are recognized by their names (`source` and
`target`, or the codes of two languages), or are the only two that hold text. JSON lines and Parquet
may also hold a pair as `{"translation": {"de": "...", "en": "..."}}`, as data sets of Hugging Face
do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any, BinaryIO

from bertwright.errors import ConfigError, DataError, listed, shorten
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import NAMES, Table, plain
from bertwright.rows.lines import ByteCounts
from bertwright.rows.open import nearest_name, open_bytes
from bertwright.rows.parquet import ROWS
from bertwright.rows.read import FORMS, read_table, rows_of_stream
from bertwright.rows.tables import UNQUOTED
from bertwright.text.corpus.find import ROW_SUFFIXES, format_of
from bertwright.text.corpus.languages import is_language
from bertwright.text.corpus.report import CorpusReport

NESTED = "translation"
"""The key whose value is the pair in data sets of Hugging Face."""
_ID = re.compile(r"[\w.:/#-]*\d[\w.:/#-]*|[\da-fA-F-]{8,}")
"""The form of an id: a number, a code with a digit such as `u17`, or a UUID."""
_NAME = re.compile(r"[^\W\d][\w.#-]*( [\w.#-]+)?")
"""The form of a column's name in a header: one word or two."""

Pair = tuple[int, str, str]
"""The number of the line (in Parquet, of the row) of a pair, from 1; the source; the target."""
Values = Mapping[str, Sequence[Any]]
"""The values of each column in the first rows."""


@dataclass(frozen=True)
class PairFile:
    """A file of pairs, and its columns."""

    path: Path
    source: str
    target: str
    """The names of the columns; in a table without a header, their numbers from 1."""
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
    named = () if source is None or target is None else (source, target)
    _require_rows(path)
    first = _first_rows(path)
    if first is None:
        raise DataError(f"{path} is empty, or its first row is too long; expected pairs")
    return _find_columns(path, *first, named)


def _first_rows(path: Path) -> tuple[Table, Values] | None:
    """Return the table of a file and the values of its first rows, also of a header; None if it is
    empty, or its first row is too long to be examined.
    """
    file = rows_of_stream(open_bytes(path), str(path), FORMS[format_of(path)], ByteCounts())
    if not file.has_text:
        return None
    table = read_table(file, (), BadRowLog(str(path), option=False), header=False)
    rows = table.sample()
    if not rows:
        return None
    return table, dict(zip(table.columns, map(list, zip(*rows, strict=True)), strict=True))


def _find_columns(path: Path, table: Table, values: Values, named: Sequence[str]) -> PairFile:
    if table.shown:
        return _in_cells(path, table, values, named)
    nested = [row for row in values.get(NESTED, ()) if isinstance(row, dict)]
    if nested:
        names = [*dict.fromkeys(key for row in nested for key in row)]
        values = {name: [row.get(name) for row in nested] for name in names}
        table = replace(table, columns=names)
    if named:
        return replace(_named(path, table, named), nested=bool(nested))
    texts = [name for name, cells in values.items() if _are_texts(cells)]
    known = _known({name: values[name] for name in texts}) or texts
    if len(known) != 2:
        raise _unclear(path, values)
    return PairFile(path, known[0], known[1], nested=bool(nested), note=_note(path, known))


def _in_cells(path: Path, table: Table, values: Values, named: Sequence[str]) -> PairFile:
    """Find the columns of CSV or TSV, whose first row may be a header."""
    first = [str(cells[0]).strip() for cells in values.values()]
    if len(first) < 2:
        raise DataError(
            f"{path} has one column, as its first line shows; expected a source and a target, in "
            "a .tsv with a tab between"
        )
    under = {name: cells[1:] for name, cells in zip(first, values.values(), strict=True)}
    known = _known(under) if all(map(_NAME.fullmatch, first)) else None
    has_header = bool(known) or any(plain(name) in map(plain, first) for name in named)
    table = replace(table, columns=first, shown="") if has_header else table
    if named:
        by_number = known and all(map(str.isdecimal, named))
        note = f"{path}: the first line names the columns and is no pair" if by_number else ""
        return replace(_named(path, table, named), has_header=has_header, note=note)
    if known:
        found = _named(path, table, known)
        return replace(found, has_header=True, note=_note(path, known))
    cells = _cells(values)
    if len(first) > 2 or any(map(_are_ids, cells.values())):
        raise _unclear(path, cells)
    note = (
        f"{path} is read without a header: column 1 is the source and column 2 the target, as in "
        f"its first pair, {shorten(first[0])} and {shorten(first[1])} (if these are names of "
        "columns, give them as --source NAME --target NAME)"
    )
    return PairFile(path, "1", "2", note=note)


def _named(path: Path, table: Table, named: Sequence[str]) -> PairFile:
    columns = [
        table.named(name, option)
        for name, option in zip(named, ("--source", "--target"), strict=True)
    ]
    return PairFile(path, columns[0], columns[1])


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
    first = _first_rows(path)
    if first is None:
        return None
    table, values = first
    names = [str(cells[0]) for cells in values.values()] if table.shown else table.columns
    if plain(text_column) in map(plain, names):
        return None
    try:
        pairs = _find_columns(path, table, values, ())
    except DataError as error:
        if not error.options:
            return None
        raise DataError(
            f"{path} has no column {text_column!r} (--text-column NAME); as pairs, {error}",
            error.options,
        ) from error
    if pairs.has_header or pairs.nested or _known(dict.fromkeys(pairs.columns, ())):
        return pairs
    if table.shown:
        values = _cells(values)
    else:
        values = {name: values[name] for name in pairs.columns}
    return pairs if _most_alike(values) else None


def read_pair_rows(
    pairs: PairFile, stream: BinaryIO, report: CorpusReport | None = None
) -> Iterator[Pair]:
    """Yield the pairs of a file, whose bytes are `stream`, without the white space around them. A
    missing side (null) is empty.

    Raises:
        DataError: a row cannot be read, because it has another number of fields, is no JSON, or has
            a side that is no string; the message has its line.
    """
    report = CorpusReport() if report is None else report
    log = BadRowLog(str(pairs.path), option=False)
    file = rows_of_stream(stream, log.name, FORMS[format_of(pairs.path)], report)
    if not file.has_text:
        return
    table = read_table(file, pairs.columns, log, header=pairs.has_header)
    rows = partial(_nested_rows, table) if pairs.nested else table.rows
    for number, values in rows(pairs.columns, complete=True):
        for column, value in zip(pairs.columns, values, strict=True):
            if value is not None and not isinstance(value, str):
                raise DataError(
                    f"{log.at(number)}: the column {column!r} holds a {type(value).__name__}; "
                    "expected a string"
                )
        source, target = ((value or "").strip() for value in values)
        yield number, source, target
    report.unquoted_tables += UNQUOTED in log.mended


def _nested_rows(
    table: Table, names: Sequence[str], complete: bool = False
) -> Iterator[tuple[int, list[Any]]]:
    """Yield the values of objects in the column `translation`."""
    for number, (pair,) in table.rows([NESTED], complete):
        for name in names:
            if pair is not None and (not isinstance(pair, dict) or name not in pair):
                raise DataError(
                    f"{table.log.at(number)} has no column {name!r} in an object {NESTED!r}"
                )
        yield number, [(pair or {}).get(name) for name in names]


def where(pairs: PairFile, number: int) -> str:
    """Return the name of a row in messages."""
    return f"{pairs.path}, {'row' if format_of(pairs.path) == '.parquet' else 'line'} {number:,}"


def pair_texts(pairs: PairFile, stream: BinaryIO, report: CorpusReport) -> Iterator[list[str]]:
    """Yield the texts of both sides in groups, as documents of a corpus."""
    rows = read_pair_rows(pairs, stream, report)
    is_parquet = format_of(pairs.path) == ".parquet"
    while group := list(islice(rows, ROWS)):
        texts = [text for _, *both in group for text in both]
        report.bytes += sum(len(text.encode()) for text in texts) if is_parquet else 0
        yield texts


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


def _known(columns: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """Return the columns that are recognized by their names: a source and a target, or two
    languages in the order of the columns. `id` is Indonesian, unless its values are ids.
    """
    sources = [name for name in columns if plain(name) in NAMES["translated"][0]]
    targets = [name for name in columns if plain(name) in NAMES["translations"][0]]
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


def _unclear(path: Path, columns: Values) -> DataError:
    """Return the error for columns that are not found, with the options that probably name them."""
    likely = _most_alike(columns)
    return DataError(
        f"{path} does not show which columns are the source and the target; it has "
        f"{listed([*columns], 10)}. Name them: --source NAME --target NAME",
        ("--source", likely[0], "--target", likely[1]) if likely else (),
    )


def _cells(values: Values) -> Values:
    """Return the columns of a table by their names if the first row looks like a header."""
    first = [str(cells[0]).strip() for cells in values.values()]
    is_header = len({*first}) == len(first) and all(map(_NAME.fullmatch, first))
    if not is_header or len(next(iter(values.values()))) < 2:
        return values
    return {name: cells[1:] for name, cells in zip(first, values.values(), strict=True)}


def _are_texts(values: Sequence[Any]) -> bool:
    texts = all(isinstance(value, str | None) for value in values)
    return texts and any(values) and not _are_ids(values)


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


def _note(path: Path, columns: Sequence[str]) -> str:
    return (
        f"{path}: the column {columns[0]!r} is taken as the source and {columns[1]!r} as the "
        "target (--source NAME --target NAME name others)"
    )
