"""Read the rows of a Parquet file in bounded memory, however large they are when decompressed.

A few hundred kilobytes can hold gigabytes of text, so only a few rows are decoded at once if they
are long. pyarrow decompresses a page at once: about a megabyte as it writes them, more if single
values are larger.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, cast

from bertwright.errors import DataError, MissingExtra, listed
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table
from bertwright.rows.lines import HEAD_LINES

ROWS = 1024
"""The number of rows of Parquet that are read at once."""
BATCH_BYTES = 1 << 24
"""The approximate number of decoded bytes that a batch of rows may have."""
LONG = 1 << 14
"""The length in characters from which equal values share memory."""


@contextmanager
def open_parquet(stream: BinaryIO, name: str) -> Iterator[Any]:
    """Open a Parquet file with pyarrow, and close the stream afterwards.

    A compressed file is first decompressed to disk, not to memory, because Parquet is read from its
    end.

    Raises:
        DataError: the file is damaged.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    with stream, tempfile.TemporaryFile() as whole:
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            shutil.copyfileobj(stream, whole, 1 << 20)
            whole.seek(0)
            stream = cast(BinaryIO, whole)
        with _damage(name):
            file = parquet.ParquetFile(stream)
        yield file


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Raise DataError for what pyarrow says of a damaged file, which is read as it is needed."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{name} is no whole Parquet file ({error}); get it again") from error


def parquet_table(stream: BinaryIO, log: BadRowLog, *, kept: bool = False) -> Table:
    """Return the table of a Parquet file; class indices written by `datasets` become class names.

    The stream is closed when the table is no longer used. `kept` says that all rows are kept in
    memory, so that equal long values are one object.
    """
    log.unit = "row"
    opened = open_parquet(stream, log.name)
    file = opened.__enter__()
    schema = file.schema_arrow
    if doubled := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise DataError(f"{log.name}: the header names {listed(doubled)} twice; rename one")
    classes = _class_names((schema.metadata or {}).get(b"huggingface", b"{}"))

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        wanted = list(dict.fromkeys(names))
        at = [wanted.index(name) for name in names]
        of_classes = [classes.get(name) for name in names]
        assert opened  # whose end closes the file
        with _damage(log.name):
            for number, row in enumerate(parquet_rows(file, wanted, share=kept), 1):
                yield number, [_named(row[i], c) for i, c in zip(at, of_classes, strict=True)]

    def sample() -> list[list[Any]]:
        return [values for _, values in islice(rows(schema.names), HEAD_LINES)]

    return Table(log.name, list(schema.names), "Parquet", rows, log, sample)


def _class_names(metadata: bytes) -> dict[str, list[str]]:
    """Return each column's class names from the metadata that `datasets` adds to the schema."""
    try:
        features = json.loads(metadata)["info"]["features"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # another program wrote the schema
    kinds = {name: each.get("feature", each) for name, each in features if isinstance(each, dict)}
    named = {name: each.get("names") for name, each in kinds.items() if isinstance(each, dict)}
    return {name: names for name, names in named.items() if names}


def _named(value: Any, names: list[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if value == -1:
        return value  # no label
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def parquet_rows(file: Any, columns: Sequence[str], *, share: bool = False) -> Iterator[list[Any]]:
    """Yield the values of some columns, row by row, of a file that `open_parquet` opened.

    With `share`, a long value that occurs again is the same object as before, which saves memory if
    all rows are kept.
    """
    rows, are_long = 1, False
    shared: dict[str, str] | None = {} if share else None
    for group in range(file.num_row_groups):
        done, count = 0, file.metadata.row_group(group).num_rows
        while done < count:
            skip = done
            for batch in file.iter_batches(rows, row_groups=[group], columns=[*columns]):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield from _values(batch.slice(skip), columns, shared)
                done, skip = done + batch.num_rows - skip, 0
                bytes_a_row = batch.nbytes / batch.num_rows
                if rows > 1 and rows * bytes_a_row > 2 * BATCH_BYTES:
                    rows, are_long = 1, True
                    break
                if not are_long and rows < ROWS and 8 * rows * bytes_a_row < BATCH_BYTES:
                    rows = min(ROWS, 8 * rows)
                    break


def _values(
    batch: Any, columns: Sequence[str], shared: dict[str, str] | None
) -> Iterator[list[Any]]:
    held = [batch.column(name).to_pylist() for name in columns]
    if shared is not None:
        for values in held:
            for at, value in enumerate(values):
                if isinstance(value, str) and len(value) >= LONG:
                    if len(shared) > ROWS:
                        shared.clear()
                    values[at] = shared.setdefault(value, value)
    yield from (list(row) for row in zip(*held, strict=True))
