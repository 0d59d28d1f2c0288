"""The forms of files, and those that are rows and columns: TSV, CSV, JSON, JSON lines, Parquet.

A form is what `--format` names, else the file's suffix (`FORMS`), else its first line: JSON begins
with `{` or `[`; TSV and CSV begin with a header in which a column chosen or a known name stands,
of CSV two. TSV has no quoting: GLUE's files hold quote characters as text. CSV quotes as the module
csv reads; its fields may be separated by semicolons or tabs too.

Columns of a file without a header are called 1, 2, ...; GLUE's CoLA, which has none, is known by
its four columns.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertwright.config.task import Form
from bertwright.errors import DataError, MissingExtra
from bertwright.labelled.columns import Columns, is_known, plain, split_label
from bertwright.labelled.source import (
    HEAD_LINES,
    BadRowLog,
    Rows,
    Source,
    listed,
    name_of,
    open_file,
    open_source,
    shorten,
    suffix_of,
)
from bertwright.text.corpus.rows import csv_delimiter

FORMS: dict[str, Form] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    **dict.fromkeys((".conll", ".conll03", ".bio", ".iob", ".iob2", ".bmes", ".bioes"), "conll"),
    **dict.fromkeys((".conllu", ".conllup"), "conllu"),
}
"""The form that a suffix says."""
Row = tuple[int, list[Any]]
"""Where a row stands (line or row, from 1) and the values of the columns chosen."""
WRONG_WIDTH = "wrong number of fields"
COLA = ["source", "label", "mark", "sentence"]
_MAX_FIELD = 1 << 28
_NAME = re.compile(r"\s?[\w#.-]+( [\w#.-]+)?\s?")
_MARK = re.compile(r"[*?#%]{0,3}")
"""What linguists wrote before a sentence; "*" in nearly all cases."""


@dataclass
class Table:
    """A file of rows whose columns are known."""

    name: str
    format: str
    """`TSV`, `JSON lines`, ..."""
    columns: list[str]
    """All columns, in order; of a file without a header `1`, `2`, ..."""
    rows: Callable[[Sequence[str]], Iterator[Row]]
    """The values of some columns, row by row; None where a row lacks one. To be called once."""


def open_form(
    path: Path | Rows, named: Sequence[str], form: Form | None = None
) -> tuple[Source, Form]:
    """Open a file. Its form is the one given, or that of its suffix or first line; else `text`.

    Raises:
        DataError: it cannot be opened.
    """
    if isinstance(path, Rows):
        return Source(path.name, Path(path.name), json=path.rows), "json"
    form = form or FORMS.get(suffix_of(path))
    if form == "parquet":
        return Source(name_of(path), path), form
    source = open_source(path)
    return source, form or _by_first_line(source.first, named)


def _by_first_line(line: str, named: Sequence[str]) -> Form:
    if line.lstrip().startswith(('{"', "[{", "{ ")) or line.strip() in ("{", "["):
        return "json"
    names = {*map(plain, named)}

    def known(cells: Sequence[str]) -> int:
        return sum(is_known(cell) or plain(cell) in names for cell in cells)

    if "\t" in line:
        return "tsv" if known(line.split("\t")) else "text"
    mark, alone = csv_delimiter(line)
    cells = next(csv.reader([line], delimiter=mark), [])
    csv_header = known(cells) > 1 and all(map(_NAME.fullmatch, cells))
    return "csv" if alone or csv_header else "tsv" if plain(line) in names else "text"


def read_table(source: Source, form: Form, chosen: Columns, hint: Columns, log: BadRowLog) -> Table:
    """The table that a file is; options name the columns `chosen`, training had those of `hint`.

    Raises:
        DataError: it is none; a doubled name in the header; no header, and no column is named.
        MissingExtra: pyarrow is not installed.
    """
    if form == "parquet":
        return parquet_table(source.path, log)
    if form in ("json", "jsonl"):
        value = None if form == "jsonl" else json_value(source)
        return json_lines(source, log) if value is None else json_table(value, log)
    return _delimited(source, form, chosen, hint, log)


def has_columns(source: Source, hint: Columns) -> bool:
    """Whether a file of tabs or plain text has a header, columns that training knew by number, or
    CoLA's four."""
    first = [cell.strip() for cell in source.first.split("\t")]
    numbers = any(map(str.isdecimal, hint.names()))
    if len(first) == 1 and not (numbers or suffix_of(source.path) == ".tsv"):
        return plain(first[0]) in map(plain, hint.names())
    return (
        (len(first) > 1 and numbers)
        or _has_header(first, hint.names())
        or _is_cola([line.split("\t") for line in source.head if line])
    )


def _delimited(source: Source, form: Form, chosen: Columns, hint: Columns, log: BadRowLog) -> Table:
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
    if form == "csv":
        mark, alone = csv_delimiter(source.first)
        if alone:
            source.head[source.head.index(source.first)] = ""  # rows keep their lines
        split = _csv_rows(source, mark)
        lines = (line + "\n" for line in source.head)
        head = [row for row in csv.reader(lines, delimiter=mark) if row]
        if len(head) > 1 and len(source.head) == HEAD_LINES:
            head.pop()  # may end within quotes
    else:
        split = ((n, line.split("\t")) for n, line in source.lines() if line)
        head = [line.split("\t") for line in source.head if line]
    if not head:
        raise DataError(f"{source.name} has no rows; expected a header and a row an example")
    first = [cell.strip() for cell in head[0]]
    names = [part for name in chosen.names() for part in split_label(name, first)]
    hinted = [part for name in hint.names() for part in split_label(name, first)]
    headed = _has_header(first, [*names, *hinted])
    format = form.upper()
    if headed:
        columns = first
        check_header(columns, source.name)
    elif not names and _is_cola(head):
        columns, format = COLA, "GLUE's CoLA"
    else:
        columns = [str(number) for number in range(1, len(first) + 1)]
        format += " without a header"
        names = names or [name for name in hinted if name.isdecimal()]
        missing = [name for name in names if name not in columns]
        if missing or not names:
            what = f"column {listed(missing)}" if missing else "column with a known name"
            raise DataError(
                f"{source.name} has no {what}; its first line is {listed(first)}. If this is the "
                "header, name the columns: --text NAME --label NAME; if there is none, number "
                "them: --text 1 --label 2"
            )
    line = "header" if headed else "first line"
    fix = "quote commas in texts" if form == "csv" else "for tabs or line ends in texts save as CSV"

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        indices = [columns.index(name) for name in wanted]
        header = next(split)[1] if headed else None
        for number, row in split:
            if row == header:
                log.bad(number, "the header again", "the header comes again")
            elif len(row) == len(columns):
                yield number, [row[index] for index in indices]
            else:
                what = f"{len(row)} fields; the {line} has {len(columns)}; {fix}"
                log.bad(number, WRONG_WIDTH, what)

    return Table(source.name, format, columns, rows)


def _has_header(first: Sequence[str], named: Sequence[str]) -> bool:
    """Whether the first row names the columns: one that is chosen or known; where columns are
    chosen by number, more than half of all are known."""
    names = {*map(plain, first)}
    if any(name in first or plain(name) in names for name in named if not name.isdecimal()):
        return True
    known = [is_known(cell) for cell in first]
    return 2 * sum(known) > len(known) if any(map(str.isdecimal, named)) else any(known)


def _is_cola(head: Sequence[Sequence[str]]) -> bool:
    rows = [row for row in head if len(row) == len(COLA)]
    return bool(rows) and all(row[1] in ("0", "1") and _MARK.fullmatch(row[2]) for row in rows)


def _csv_rows(source: Source, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line that each begins at."""
    lines = (line + "\n" for _, line in source.lines())
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source.name}, line {line:,}: {error}; expected CSV with closed quotes"
        ) from error


def check_header(columns: Sequence[str], name: str) -> None:
    """Raise DataError for a header that names a column twice."""
    doubled = {column for column in columns if column and list(columns).count(column) > 1}
    if doubled:
        raise DataError(
            f"{name}: the header names {listed(sorted(doubled))} twice; rename one of them"
        )


def json_value(source: Source) -> Any:
    """The whole value of a JSON file; None if it is JSON lines, a row a line.

    Raises:
        DataError: it is neither; names the line.
    """
    if source.json is not None:
        return source.json
    value = _parse(source.first)
    if isinstance(value, dict) and not isinstance(value.get("data"), list):
        return None
    source.json = value = _parse("\n".join(line for _, line in source.lines()))
    if isinstance(value, Exception):
        at = f", line {value.lineno:,}, column {value.colno:,}" if isinstance(
            value, json.JSONDecodeError) else ""  # fmt: skip
        raise DataError(
            f"{source.name}{at} cannot be read as JSON: {value}; expected an array of objects, or "
            "an object a line"
        )
    return value


class _DoubledKey(ValueError):
    """A key that a JSON object holds twice."""


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DoubledKey(f"the key {shorten(max(keys, key=keys.count))} comes twice")
    return row


def _parse(line: str) -> Any:
    """A value, or the error."""
    try:
        return json.loads(line, object_pairs_hook=_no_doubles)
    except (json.JSONDecodeError, _DoubledKey, RecursionError) as error:
        return error


def json_lines(source: Source, log: BadRowLog) -> Table:
    """JSON lines; the columns are the keys of the first lines."""
    seen = [_parse(line) for line in source.head if line.strip()]
    columns = list(dict.fromkeys(key for row in seen if isinstance(row, dict) for key in row))
    if len(seen) == 1 and columns and all(map(_is_column, seen[0].values())):
        raise DataError(
            f"{source.name} holds a column after another ({listed(columns)}); expected an "
            "array of objects, or an object a line: to_json(orient='records') in pandas"
        )
    if not columns:
        number = source.head.index(source.first) + 1
        raise DataError(
            f"{log.at(number)}: neither this line nor those after it are JSON objects; expected "
            '{"text": "...", "label": "..."} a line'
        )

    values = ((n, _parse(line)) for n, line in source.lines() if line.strip())
    return Table(source.name, "JSON lines", columns, _object_rows(values, log))


def _object_rows(
    values: Iterable[tuple[int, Any]], log: BadRowLog
) -> Callable[[Sequence[str]], Iterator[Row]]:
    def rows(names: Sequence[str]) -> Iterator[Row]:
        for number, row in values:
            if isinstance(row, dict):
                yield number, [row.get(name) for name in names]
            else:
                wrong = f"no JSON: {row}" if isinstance(row, Exception) else (
                    f"a JSON {type(row).__name__}; expected an object"
                )  # fmt: skip
                log.bad(number, "not a JSON object", wrong)

    return rows


def _is_column(value: Any) -> bool:
    """Whether pandas wrote it: the values of a column by the numbers of their rows."""
    return isinstance(value, dict) and "0" in value


def json_table(value: Any, log: BadRowLog) -> Table:
    """An array of objects, or `{"data": [...]}`; rows are numbered from 1."""
    log.unit = "row"
    found = value.get("data") if isinstance(value, dict) else value
    found = found if isinstance(found, list) else []
    columns = dict.fromkeys(k for row in found[:HEAD_LINES] if isinstance(row, dict) for k in row)
    if not columns:
        raise DataError(
            f'{log.name} is JSON, but no array of objects like [{{"text": "...", "label": "..."}}]'
        )
    return Table(log.name, "JSON", list(columns), _object_rows(enumerate(found, 1), log))


def parquet_table(path: Path, log: BadRowLog) -> Table:
    """A Parquet file; numbers of classes that `datasets` wrote become the classes' names.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    log.unit = "row"
    with open_file(path) as stream:
        data = io.BytesIO(stream.read())  # Parquet is read from its end
    try:
        file = parquet.ParquetFile(data)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{log.name} is no whole Parquet file ({error}); get it again") from error
    columns = list(file.schema_arrow.names)
    check_header(columns, log.name)
    classes = _class_names((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))

    def rows(names: Sequence[str]) -> Iterator[Row]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(names))):
                lists = [
                    [_named(value, classes.get(name)) for value in batch.column(name).to_pylist()]
                    for name in names
                ]
                for row in zip(*lists, strict=True):
                    number += 1
                    yield number, list(row)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{log.at(number + 1)}: Parquet that cannot be read ({error}); get it again"
            ) from error

    return Table(log.name, "Parquet", columns, rows)


def _class_names(metadata: bytes) -> dict[str, list[str]]:
    """Names of the classes of each column, from what `datasets` puts into the schema."""
    try:
        features = json.loads(metadata)["info"]["features"]
        dicts = {name: each for name, each in features.items() if isinstance(each, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # the schema is of another program
    kinds = {name: each.get("feature", each) for name, each in dicts.items()}
    return {
        n: kind["names"]
        for n, kind in kinds.items()
        if isinstance(kind, dict) and kind.get("names")
    }


def _named(value: Any, names: list[str] | None) -> Any:
    """The name of a class by its number, or of a list of them."""
    if names is None:
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
