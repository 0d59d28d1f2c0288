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
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.arrays import Float32s
from bertwright.atomic import sync_file
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
        DataError: numbers of no such form, or int8 without scales, or with those of others.
    """
    if stored.dtype == np.uint8:
        return np.asarray(np.unpackbits(stored, axis=1), np.float32) * 2 - 1
    if stored.dtype == np.int8:
        if scales is None:
            raise DataError("vectors of int8 need their scales: keep NAME.scales.npy beside them")
        if scales.shape != (2, stored.shape[1]) or scales.dtype.kind != "f":
            raise DataError(
                f"the scales are {scales.dtype} {list(scales.shape)}; vectors of int8 here need "
                f"float32 {[2, stored.shape[1]]}: they are of other vectors"
            )
        return np.asarray((stored.astype(np.float32) + 128) * scales[1] + scales[0], np.float32)
    if stored.dtype.kind != "f":
        raise DataError(
            f"the vectors are of type {stored.dtype}; expected float32, float16, int8, or uint8 "
            "(binary)"
        )
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
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise DataError(f"{path} is no .npy of vectors ({error})") from error
        if isinstance(found, np.ndarray):
            return found
        found.close()
        raise DataError(f"{path} is an .npz of several arrays; expected one array, a .npy")

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
            ConfigError: there is an unfinished file and neither is given, or it is of other
                settings or another model.
            IntegrityError: the unfinished file or its journal is damaged.
            MissingExtra: pyarrow is not installed, for Parquet.
        """
        self.path, self.coder, self.journal = path, coder, journal_path(path)
        self.partial = self.whole = path.with_name(f".{path.name}.partial")
        if path.suffix == ".parquet":
            _pyarrow()
            self.whole = path.with_name(f".{path.name}.whole")
        self.state: dict[str, Any] = {"key": key, "rows": 0, "bytes": 0, "digest": ""}
        self.digest = hashlib.sha256()
        self.renamed = False
        """Whether the run was killed after the file got its name."""
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
            state = json.loads(self.journal.read_text(encoding="utf-8"))
            old, size, final = dict(state["key"]), int(state["bytes"]), state["final_bytes"]
            self.state |= {"rows": int(state["rows"]), "bytes": size, "digest": state["digest"]}
            if state["scales"] is not None:
                self.coder.scales = np.array(state["scales"], np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                f"{self.journal} is damaged ({error}); start again with --overwrite"
            ) from error
        if differing := sorted(k for k in old | key if old.get(k) != key.get(k)):
            raise ConfigError(
                f"the unfinished {self.path.name} was made with another {', '.join(differing)}; "
                "continue with the same, or start again with --overwrite"
            )
        there = not self.whole.exists() and self.path.is_file()
        self.renamed = there and self.path.stat().st_size == final
        if not self.renamed and (not self.partial.is_file() or self.partial.stat().st_size < size):
            raise IntegrityError(
                f"{self.partial} is shorter than its journal says; start again with --overwrite"
            )

    def skip(self, texts: Sequence[Text]) -> None:
        """Pass over texts whose rows are there."""
        # "a","b", : the same however the texts fall into calls
        self.digest.update(json.dumps(list(texts), separators=(",", ":")).encode()[1:-1] + b",")

    def check_skipped(self) -> None:
        """Raise DataError unless the texts passed over are those of the rows that are there."""
        if self.rows and self.digest.hexdigest() != self.state["digest"]:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            f"the texts are not those of the {self.rows:,} rows that {self.path.name} has already: "
            "the input was changed; start again with --overwrite"
        )

    def write(self, columns: dict[str, Sequence[Any]], texts: Sequence[Text]) -> None:
        """Append a row a text and note it.

        Args:
            columns: by name; the last is the vectors, `[n, W]` or n times `[T, W]`; `.npy` has it
                alone.

        Raises:
            DataError: the file was finished, and the input has more texts now.
        """
        if self.renamed:
            raise self._changed()
        *_, vectors = columns.values()
        if self.path.suffix == ".npy":
            stored = np.ascontiguousarray(vectors)
            if not self.rows:
                self._write_header(stored.dtype, (0, *stored.shape[1:]))
            self.file.write(stored.data)
        elif self.path.suffix == ".parquet":
            batch = _arrow_batch(columns)
            if not self.rows:
                self.file.write(batch.schema.serialize())
            self.file.write(batch.serialize())
        else:
            for *others, own in zip(*columns.values(), strict=True):
                line = dict(zip(columns, [*others, None], strict=True))
                self.file.write(json.dumps(line, ensure_ascii=False)[: -len("null}")].encode())
                self._write_numbers(own)
                self.file.write(b"}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.skip(texts)
        self.state["rows"] += len(texts)
        self._write_journal()

    def finish(self) -> None:
        """Write what belongs to the end, and give the file its name."""
        if not self.renamed:
            end = self.file.tell()
            if self.path.suffix == ".npy":
                self.file.seek(0)
                npy.read_magic(self.file)
                shape, _, dtype = npy.read_array_header_1_0(self.file)
                self.file.seek(0)
                self._write_header(dtype, (self.rows, *shape[1:]))
                self.file.seek(end)
            self.file.flush()
            if self.path.suffix == ".parquet":
                _to_parquet(self.partial, self.whole)
            sync_file(self.whole)
            self._write_scales()
            self._write_journal(self.whole.stat().st_size)
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

    def _write_header(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        # NumPy leaves room for more rows: the header of any number of them is as long
        descr = npy.dtype_to_descr(dtype)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, header)

    def _write_scales(self) -> None:
        """Give the scales of int8 their name, and remove what the file replaces."""
        path, scales = scales_path(self.path), self.coder.scales
        if self.path.is_file() and (scales is not None or path.is_file()):
            self.path.unlink()
            path.unlink(missing_ok=True)
        if scales is not None:
            fresh = path.with_name(f".{path.name}.partial")
            with fresh.open("wb") as file:
                np.save(file, scales)
            sync_file(fresh)
            fresh.replace(path)

    def _write_numbers(self, own: npt.NDArray[Any]) -> None:
        """A row at a time, as Python's numbers take eight times the memory of an array's."""
        if own.ndim == 1:
            self.file.write(json.dumps(own.tolist()).encode())
            return
        for number, row in enumerate(own):
            self.file.write(b", " if number else b"[")
            self._write_numbers(row)
        self.file.write(b"]")

    def _write_journal(self, final_size: int | None = None) -> None:
        scales = self.coder.scales
        self.state |= {
            "bytes": self.file.tell(),
            "digest": self.digest.hexdigest(),
            "scales": None if scales is None else scales.tolist(),
            "final_bytes": final_size,
        }
        fresh = self.journal.with_name(f"{self.journal.name}.new")
        fresh.write_text(json.dumps(self.state), encoding="utf-8")
        fresh.replace(self.journal)


def _arrow_batch(columns: dict[str, Sequence[Any]]) -> Any:
    """A batch of Arrow, its vectors as lists of one size."""
    arrow = _pyarrow()
    *_, (name, vectors) = columns.items()
    rows = np.concatenate([np.atleast_2d(own) for own in vectors])
    numbers = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    made = arrow.FixedSizeListArray.from_arrays(numbers, rows.shape[1])
    if vectors[0].ndim == 2:
        ends = np.cumsum([0, *map(len, vectors)], dtype=np.int32)
        made = arrow.ListArray.from_arrays(ends, made)
    return arrow.RecordBatch.from_pydict({**columns, name: made})


def _to_parquet(stream: Path, path: Path) -> None:
    """Write a stream of batches as row groups, one after the other."""
    from pyarrow import parquet

    with (
        _pyarrow().ipc.open_stream(str(stream)) as batches,
        parquet.ParquetWriter(path, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "writing .parquet files") from error
    return pyarrow
