"""Files of rows and columns: JSON lines, JSON and Parquet; TSV and CSV are in `delimited`."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertwright.errors import DataError, MissingExtra
from bertwright.labelled.bad_rows import BadRowLog, listed, shorten
from bertwright.labelled.sources import Source, name_of, open_file

Row = tuple[int, list[Any]]
"""Where a row stands (line or row, from 1) and the values of the columns asked for."""


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
    guessed: dict[str, str] = field(default_factory=dict)
    """Of a file without a header: which column is `text`, `text2`, `label`."""


def json_of(source: Source) -> Any:
    """The whole value of a JSON file; None if it is JSON lines, a row a line.

    Raises:
        DataError: it is neither; names the line.
    """
    first = next(line for line in source.head if line.strip())
    try:
        value = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        if source.suffix in (".jsonl", ".ndjson"):
            return None
        value = []
    if isinstance(value, dict) and not isinstance(value.get("data"), list):
        if _is_whole(source, first):
            return value
        return None
    text = "\n".join(line for _, line in source.lines())
    try:
        return json.loads(text, object_pairs_hook=_no_doubles)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{source.name}, line {error.lineno:,}, column {error.colno:,} is no JSON: "
            f"{error.msg}; expected an array of objects, or an object a line"
        ) from error
    except (_DoubledKey, RecursionError) as error:
        raise DataError(f"{source.name} is no JSON to read: {error}") from error


def _is_whole(source: Source, first: str) -> bool:
    """Whether a .json file is one object on one line, and so no JSON lines."""
    return (
        source.suffix == ".json"
        and [line for line in source.head if line.strip()] == [first]
        and "paragraphs" in first[:10_000]
    )


def json_lines(source: Source, log: BadRowLog) -> Table:
    """JSON lines; the columns are the keys of the first lines."""
    columns: dict[str, None] = {}
    rows_seen = [_parse(line) for line in source.head if line.strip()]
    for row in rows_seen:
        if isinstance(row, dict):
            columns.update(dict.fromkeys(row))
    if len(rows_seen) == 1 and columns and all(map(_is_column, rows_seen[0].values())):
        raise DataError(
            f"{source.name} holds a column after another ({listed(list(columns))}); expected an "
            "array of objects, or an object a line: to_json(orient='records') in pandas"
        )
    if not columns:
        number = next(i for i, line in enumerate(source.head, 1) if line.strip())
        raise DataError(
            f"{log.place(number)}: neither this line nor those after it are JSON objects; expected "
            '{"text": "...", "label": "..."} a line'
        )

    def rows(names: Sequence[str]) -> Iterator[Row]:
        for number, line in source.lines():
            if not line.strip():
                continue
            row = _parse(line)
            if isinstance(row, dict):
                yield number, [row.get(name) for name in names]
            elif isinstance(row, Exception):
                log.bad(number, "not JSON", f"no JSON: {row}")
            else:
                log.bad(
                    number,
                    "not a JSON object",
                    f'a JSON {type(row).__name__}; expected an object like {{"text": "..."}}',
                )

    return Table(source.name, "JSON lines", list(columns), rows)


def _is_column(value: Any) -> bool:
    """Whether pandas wrote it: the values of a column by the numbers of their rows."""
    return isinstance(value, dict) and "0" in value


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


def json_table(value: Any, log: BadRowLog) -> Table:
    """An array of objects, or `{"data": [...]}`; rows are numbered from 1."""
    log.unit = "row"
    found = value.get("data") if isinstance(value, dict) else value
    if not isinstance(found, list) or not any(isinstance(row, dict) for row in found[:200]):
        raise DataError(
            f'{log.name} is JSON, but no array of objects like [{{"text": "...", "label": "..."}}]'
        )
    columns = dict.fromkeys(
        itertools.chain.from_iterable(row for row in found[:200] if isinstance(row, dict))
    )

    def rows(names: Sequence[str]) -> Iterator[Row]:
        for number, row in enumerate(found, 1):
            if isinstance(row, dict):
                yield number, [row.get(name) for name in names]
            else:
                log.bad(number, "not a JSON object", f"a JSON {type(row).__name__}, no object")

    return Table(log.name, "JSON", list(columns), rows)


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
        columns = list(file.schema_arrow.names)
        check_header(columns, name_of(path))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{name_of(path)} is no whole Parquet file ({error}); get it again"
        ) from error
    classes = _class_names((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))

    def rows(names: Sequence[str]) -> Iterator[Row]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(names))):
                lists = [
                    _named(batch.column(name).to_pylist(), classes.get(name, [])) for name in names
                ]
                for row in zip(*lists, strict=True):
                    number += 1
                    yield number, list(row)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{log.place(number + 1)}: Parquet that cannot be read ({error}); get it again"
            ) from error

    return Table(log.name, "Parquet", columns, rows)


def _class_names(metadata: bytes) -> dict[str, list[str]]:
    """Names of the classes of each column, from what `datasets` puts into the schema."""
    try:
        features = json.loads(metadata)["info"]["features"]
        kinds = {
            name: feature.get("feature", feature) if isinstance(feature, dict) else {}
            for name, feature in features.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # the schema is of another program
    return {
        name: kind["names"]
        for name, kind in kinds.items()
        if isinstance(kind, dict) and kind.get("names")
    }


def _named(values: list[Any], names: list[str]) -> list[Any]:
    if not names:
        return values

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return [name(each) for each in value]
        return names[value] if isinstance(value, int) and 0 <= value < len(names) else None

    return [name(value) for value in values]


def check_header(columns: Sequence[str], name: str) -> None:
    """Refuse a header that names a column twice."""
    doubled = {column for column in columns if column and list(columns).count(column) > 1}
    if doubled:
        raise DataError(
            f"{name}: the header names {listed(sorted(doubled))} twice; rename one of them"
        )
