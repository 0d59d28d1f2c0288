"""Files of vectors, `.npy`, `.jsonl` or `.parquet`, that a killed run continues.

Rows are appended to `.NAME.partial`; beside it `.NAME.journal` has the settings, how many rows are
on the disk, and a digest of their texts. What was written after the last note is truncated and made
again. `.npy` gets the number of its rows at the end; a reader maps the file. Parquet cannot be
appended to: its rows wait in a stream of Arrow batches, each a row group in the end. The file
appears by one rename, which the journal notes before; the ranges of int8 appear just before it, and
what they replace is removed first, so that no vectors ever lie beside the ranges of others.

| dtype | a number is |
|---|---|
| float32, float16 | itself |
| int8 | `round((x - low) / step) - 128`; `NAME.scales.npy` holds `[2, W]`: low and step |
| binary | whether it is above 0, eight a byte, the first in the highest bit (`numpy.packbits`) |

NAME is the whole name: `v.npy.scales.npy`. Letters: n texts, W numbers of a vector.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_path, sync_file
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.inference.encode import Text

Stored = Literal["float32", "float16", "int8", "binary"]
SUFFIXES = (".npy", ".jsonl", ".parquet")


class Coder:
    """Vectors to the numbers that are stored."""

    def __init__(self, dtype: Stored) -> None:
        self.dtype = dtype
        self.scales: Float32s | None = None
        """`[2, W]` of int8: low and step, from the first vectors."""
        self.clipped = 0
        """Numbers of int8 outside the range of the first vectors."""

    def __call__(self, vectors: Float32s) -> npt.NDArray[Any]:
        """`[n, W]` -> `[n, W]`, or `[n, W / 8]` bytes for binary"""
        if self.dtype == "binary":
            bits: npt.NDArray[Any] = np.packbits(vectors > 0, axis=1)
            return bits
        if self.dtype == "int8":
            if self.scales is None:
                low = vectors.min(0)
                step = np.maximum((vectors.max(0) - low) / 255, np.finfo(np.float32).tiny)
                self.scales = np.stack([low, step]).astype(np.float32)
            low, step = self.scales
            levels = np.round((vectors - low) / step)
            self.clipped += int(((levels < 0) | (levels > 255)).sum())
            return np.asarray(np.clip(levels, 0, 255) - 128, np.int8)
        stored: npt.NDArray[Any] = vectors.astype(self.dtype)
        return stored


def decode(stored: npt.NDArray[Any], scales: Float32s | None = None) -> Float32s:
    """What `Coder` stored, as float32; of binary -1 and 1; `scales` are those of int8.

    Raises:
        DataError: numbers of no such form, or int8 without its scales.
    """
    if stored.dtype == np.uint8:
        return np.asarray(np.unpackbits(stored, axis=1), np.float32) * 2 - 1
    if stored.dtype == np.int8:
        shape = (2, stored.shape[1])
        if scales is None or scales.shape != shape or scales.dtype.kind != "f":
            there = "none are there" if scales is None else f"{scales.dtype} {scales.shape} came"
            raise DataError(
                f"vectors of int8 need their scales, float32 {shape}, in NAME.scales.npy beside "
                f"them; {there}"
            )
        return np.asarray((stored.astype(np.float32) + 128) * scales[1] + scales[0], np.float32)
    if stored.dtype.kind != "f":
        expected = "float32, float16, int8, or uint8 (binary)"
        raise DataError(f"the vectors are of type {stored.dtype}; expected {expected}")
    return np.asarray(stored, np.float32)


def scales_path(path: Path) -> Path:
    """Where the ranges of an int8 file are."""
    return path.with_name(f"{path.name}.scales.npy")


def journal_path(path: Path) -> Path:
    """Where an unfinished file has its notes."""
    return path.with_name(f".{path.name}.journal")


def read_vectors(path: Path) -> tuple[npt.NDArray[Any], Float32s | None]:
    """Vectors `[n, W]` of a `.npy`, mapped, and their scales if they are int8.

    Raises:
        DataError: no such file, another one, or int8 without its scales.
    """

    def read(path: Path) -> npt.NDArray[Any]:
        try:
            return npy.open_memmap(path, mode="r")
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no .npy of vectors ({error})") from error

    stored, beside = read(path), scales_path(path)
    if stored.ndim != 2:
        raise DataError(f"{path} has the shape {list(stored.shape)}; expected [n, W], a row a text")
    scales = read(beside) if stored.dtype == np.int8 and beside.is_file() else None
    try:
        decode(stored[:0], scales)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return stored, scales


class ResumableWriter:
    """Writes vectors in order, and notes what is on the disk."""

    def __init__(
        self, path: Path, key: dict[str, Any], coder: Coder, resume: bool, overwrite: bool
    ) -> None:
        """Start, or with `resume` continue what a killed run left; `overwrite` throws it away.

        Args:
            key: all that the rows depend on but the texts.
            coder: made the rows; it gets its scales from a run that is continued.

        Raises:
            ConfigError: there is an unfinished file and neither is given, or it has another key.
            IntegrityError: the unfinished file or its journal is damaged.
            MissingExtra: pyarrow is not installed, for Parquet.
        """
        self.path, self.coder, self.journal = path, coder, journal_path(path)
        self.partial = self.whole = path.with_name(f".{path.name}.partial")
        if path.suffix == ".parquet":
            if find_spec("pyarrow") is None:
                raise MissingExtra("hf", "pyarrow", "writing .parquet files")
            self.whole = path.with_name(f".{path.name}.whole")
        self.digest = hashlib.sha256()
        self.renamed = False
        """Whether the run was killed after the file got its name."""
        self.state: dict[str, Any] = {"key": key, "rows": 0, "bytes": 0, "digest": "", "end": False}
        path.parent.mkdir(parents=True, exist_ok=True)
        if overwrite:
            self.journal.unlink(missing_ok=True)
        elif self.journal.is_file():
            self._read_journal(resume)
        if not self.renamed:
            size = self.state["bytes"]
            self.file = self.partial.open("r+b" if size else "w+b")
            self.file.truncate(size)
            self.file.seek(size)

    @property
    def rows(self) -> int:
        """Rows that are on the disk."""
        return int(self.state["rows"])

    def _read_journal(self, resume: bool) -> None:
        """Take over what an earlier run noted."""
        if not resume:
            raise ConfigError(
                f"an unfinished {self.path.name} is in {self.path.parent}: pass --resume to "
                "continue it, or --overwrite to start again"
            )
        key = self.state["key"]
        try:
            self.state = json.loads(self.journal.read_text(encoding="utf-8"))
            old, scales = self.state["key"], self.state["scales"]
            self.renamed = self.state["end"] and not self.whole.exists() and self.path.is_file()
            if not self.renamed and self.partial.stat().st_size < self.state["bytes"]:
                raise ValueError(f"{self.partial} is shorter than its journal says")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise IntegrityError(
                f"{self.journal} is damaged ({error}); start again with --overwrite"
            ) from error
        if differing := sorted(k for k in old | key if old.get(k) != key.get(k)):
            raise ConfigError(
                f"the unfinished {self.path.name} was made with another {', '.join(differing)}; "
                "continue with the same, or start again with --overwrite"
            )
        if scales is not None:
            self.coder.scales = np.array(scales, np.float32)

    def skip(self, texts: Sequence[Text]) -> None:
        """Pass over texts whose rows are there."""
        # "a","b", : the same however the texts fall into calls
        self.digest.update(json.dumps(list(texts), separators=(",", ":")).encode()[1:-1] + b",")

    def check_skipped(self, more: bool = False) -> None:
        """Raise DataError unless the texts passed over are those of the rows that are there, and
        where there are `more` though the file was finished."""
        other = self.rows and self.digest.hexdigest() != self.state["digest"]
        if other or (more and self.renamed):
            raise DataError(
                f"the texts are not those of the {self.rows:,} rows that {self.path.name} has "
                "already: the input was changed; start again with --overwrite"
            )

    def write(self, columns: dict[str, Sequence[Any]], texts: Sequence[Text]) -> None:
        """Append a row a text and note it.

        Args:
            columns: by name; the last is the vectors, `[n, W]` or n times `[T, W]`; `.npy` has it
                alone.

        Raises:
            DataError: the file was finished, and the input has more texts now.
        """
        self.check_skipped(more=True)
        *names, last = columns
        if self.path.suffix == ".npy":
            stored = np.ascontiguousarray(columns[last])
            if not self.rows:
                self.state["header"] = npy.header_data_from_array_1_0(stored)
                self._write_header()
            self.file.write(stored.data)
        elif self.path.suffix == ".parquet":
            batch = _arrow_batch(columns)
            if not self.rows:
                self.file.write(batch.schema.serialize())
            self.file.write(batch.serialize())
        else:
            for *others, own in zip(*columns.values(), strict=True):
                line = json.dumps(dict(zip(names, others, strict=True)), ensure_ascii=False)
                self.file.write(f'{line[:-1]}, "{last}": {_numbers(own)}}}\n'.encode())
        self.skip(texts)
        self.state["rows"] += len(texts)
        self._write_journal()

    def finish(self) -> None:
        """Write what belongs to the end, and give the file its name."""
        if not self.renamed:
            if self.path.suffix == ".npy":
                self.file.seek(0)
                self._write_header()
                self.file.seek(self.state["bytes"])
            self.file.flush()
            if self.path.suffix == ".parquet":
                _to_parquet(self.partial, self.whole)
            sync_file(self.whole)
            self._write_scales()
            self._write_journal(end=True)
            self.file.close()
            self.whole.replace(self.path)
        self.partial.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; what is noted stays for `resume`."""
        if not self.renamed:
            self.file.close()
        if not self.rows:
            self.partial.unlink(missing_ok=True)

    def _write_header(self) -> None:
        # NumPy leaves room for more rows: the header of any number of them is as long
        header = self.state["header"]
        shape = (self.rows, *header["shape"][1:])
        npy.write_array_header_1_0(self.file, {**header, "shape": shape})

    def _write_scales(self) -> None:
        """Give the scales of int8 their name, and remove what the file replaces."""
        path, scales = scales_path(self.path), self.coder.scales
        if self.path.is_file() and (scales is not None or path.is_file()):
            self.path.unlink()
            path.unlink(missing_ok=True)
        if scales is not None:
            with atomic_path(path, overwrite=True) as fresh, fresh.open("wb") as file:
                np.save(file, scales)

    def _write_journal(self, end: bool = False) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        scales = self.coder.scales
        self.state |= {
            "bytes": self.file.tell(),
            "digest": self.digest.hexdigest(),
            "scales": None if scales is None else scales.tolist(),
            "end": end,
        }
        fresh = self.journal.with_name(f"{self.journal.name}.new")
        fresh.write_text(json.dumps(self.state), encoding="utf-8")
        fresh.replace(self.journal)


def _numbers(own: npt.NDArray[Any]) -> str:
    """JSON, made a row at a time, as Python's numbers take eight times the memory of an array's."""
    if own.ndim == 1:
        return json.dumps(own.tolist())
    return f"[{', '.join(map(_numbers, own))}]"


def _arrow_batch(columns: dict[str, Sequence[Any]]) -> Any:
    """A batch of Arrow, its vectors as lists of one size."""
    import pyarrow as arrow

    *_, (name, vectors) = columns.items()
    numbers = arrow.array(np.concatenate([np.ravel(own) for own in vectors]))
    made = arrow.FixedSizeListArray.from_arrays(numbers, vectors[0].shape[-1])
    if vectors[0].ndim == 2:
        ends = np.cumsum([0, *map(len, vectors)], dtype=np.int32)
        made = arrow.ListArray.from_arrays(ends, made)
    return arrow.RecordBatch.from_pydict({**columns, name: made})


def _to_parquet(stream: Path, path: Path) -> None:
    """Write a stream of batches as row groups, one after the other."""
    from pyarrow import ipc, parquet

    with (
        ipc.open_stream(str(stream)) as batches,
        parquet.ParquetWriter(path, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
