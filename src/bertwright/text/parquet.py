"""The rows of a Parquet file in bounded memory, whatever they become when they are decompressed.

A few hundred kilobytes can hold gigabytes of text. So few rows are decoded at once while they are
long. What pyarrow decompresses at once is a page: about a megabyte as it writes them, more where
single values are larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertwright.text.tables import ROWS

BATCH_BYTES = 1 << 24
"""Decoded bytes that a batch of rows may have, about."""
LONG = 1 << 14
"""Characters from which equal values share memory."""


def parquet_rows(file: Any, columns: Sequence[str], *, share: bool = False) -> Iterator[list[Any]]:
    """Yield the values of some columns of a file that `tables.open_parquet` opened, row by row.

    With `share`, which is for rows that are all kept, a long value that comes again is the same
    object as before.
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
