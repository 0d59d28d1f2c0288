"""Read the rows of a Parquet file in bounded memory, however large they are when decompressed.

A few hundred kilobytes can hold gigabytes of text, so only a few rows are decoded at once if they
are long. pyarrow decompresses a page at once: about a megabyte as it writes them, more if single
values are larger.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from bertwright.errors import DataError, MissingExtra

ROWS = 1024
"""The number of rows of Parquet that are read at once."""
BATCH_BYTES = 1 << 24
"""The approximate number of decoded bytes that a batch of rows may have."""
LONG = 1 << 14
"""The length in characters from which equal values share memory."""


@contextmanager
def open_parquet(stream: BinaryIO, name: str) -> Iterator[Any]:
    """Open a Parquet file with pyarrow.

    A compressed file is first decompressed to disk, not to memory, because Parquet is read from its
    end.

    Raises:
        DataError: the file is damaged, which may only be found while it is read.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    with tempfile.TemporaryFile() as whole:
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            shutil.copyfileobj(stream, whole, 1 << 20)
            whole.seek(0)
            stream = cast(BinaryIO, whole)
        try:
            yield parquet.ParquetFile(stream)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DataError(f"{name} is no whole Parquet file ({error}); get it again") from error


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
