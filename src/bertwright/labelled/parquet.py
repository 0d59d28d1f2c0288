"""The rows of a Parquet file in bounded memory, whatever they become when they are decompressed.

A few hundred kilobytes can hold gigabytes of text. So few rows are decoded at once while they are
long, and a long value that comes again is one Python object. What pyarrow decompresses at once is a
page: about a megabyte as it writes them, more where single values are larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertwright.text.corpus.files import open_bytes
from bertwright.text.tables import ROWS, open_parquet

FEWEST = 8
"""Rows that are decoded at once at first, and where they are long."""
BATCH_BYTES = 1 << 24
"""Decoded bytes that a batch of rows may have, about."""
LONG = 1 << 14
"""Characters from which equal values share memory."""


def parquet_rows(path: Path, name: str, columns: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the values of some columns, row by row.

    Raises:
        DataError: the file is damaged.
        MissingExtra: pyarrow is not installed.
    """
    rows, are_long = FEWEST, False
    shared: dict[str, str] = {}
    with open_bytes(path) as stream, open_parquet(stream, name) as file:
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
                    if rows * bytes_a_row > 2 * BATCH_BYTES and rows > FEWEST:
                        rows, are_long = FEWEST, True
                        break
                    if not are_long and rows < ROWS and 8 * rows * bytes_a_row < BATCH_BYTES:
                        rows = min(ROWS, 8 * rows)
                        break


def _values(batch: Any, columns: Sequence[str], shared: dict[str, str]) -> Iterator[list[Any]]:
    held = [batch.column(name).to_pylist() for name in columns]
    for values in held:
        for at, value in enumerate(values):
            if isinstance(value, str) and len(value) >= LONG:
                if len(shared) > ROWS:
                    shared.clear()
                values[at] = shared.setdefault(value, value)
    yield from (list(row) for row in zip(*held, strict=True))
