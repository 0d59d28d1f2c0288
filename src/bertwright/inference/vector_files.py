"""Vectors on disk, `.npy`, `.jsonl` or `.parquet`, that a killed run goes on with.

`.npy` rows are written in order behind a header of fixed size, which gets its shape at the end; a
reader maps the file. Parquet has its index at its end and cannot be added to: its rows wait in a
stream of Arrow batches, each a row group when all are there. Beside the unfinished
`.NAME.partial` lies `.NAME.journal`: under which settings, how many rows are safe on the disk, and
a digest of the texts they are of. What was written after the last note is cut off and made again.
The file appears by one rename. The ranges of int8 wait in the journal and appear just before it;
what they replace goes first, so that no vectors ever lie beside the ranges of others.

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

from bertwright.arrays import Float32s
from bertwright.atomic import sync_file
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.inference.encode import Text

Stored = Literal["float32", "float16", "int8", "binary"]
HEADER = 128
SUFFIXES = (".npy", ".jsonl", ".parquet")


class Coder:
    """Vectors to the numbers that are stored."""

    def __init__(self, dtype: Stored, scales: Float32s | None = None) -> None:
        self.dtype, self.scales = dtype, scales
        self.clipped = 0
        """Numbers of int8 outside the range of the sample."""

    def fit(self, sample: Float32s) -> bool:
        """Take the ranges of int8 from the first vectors, once; say whether it was now."""
        now = self.dtype == "int8" and self.scales is None
        if now:
            low = sample.min(0)
            step = np.maximum((sample.max(0) - low) / 255, np.finfo(np.float32).tiny)
            self.scales = np.stack([low, step]).astype(np.float32)
        return now

    def __call__(self, vectors: Float32s) -> npt.NDArray[Any]:
        """`[n, W]` -> `[n, W]`, or `[n, W / 8]` bytes for binary"""
        if self.dtype == "binary":
            bits: npt.NDArray[Any] = np.packbits(vectors > 0, axis=1)
            return bits
        if self.dtype == "int8":
            assert self.scales is not None
            low, step = self.scales
            levels = np.round((vectors - low) / step)
            self.clipped += int(((levels < 0) | (levels > 255)).sum())
            return np.asarray(np.clip(levels, 0, 255) - 128, np.int8)
        stored: npt.NDArray[Any] = vectors.astype(self.dtype)
        return stored


def decode(stored: npt.NDArray[Any], scales: Float32s | None = None) -> Float32s:
    """What `Coder` stored, as float32; of binary -1 and 1.

    Args:
        stored: rows.
        scales: of int8.

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


def read_vectors(path: Path) -> tuple[npt.NDArray[Any], Float32s | None]:
    """Vectors `[n, W]` of a `.npy`, mapped, and their scales if they are int8.

    Raises:
        DataError: no such file, another one, or int8 without its scales.
    """
    stored = _read_array(path)
    if stored.ndim != 2:
        raise DataError(f"{path} has the shape {list(stored.shape)}; expected [n, W], a row a text")
    has_scales = stored.dtype == np.int8 and scales_path(path).is_file()
    scales = _read_array(scales_path(path)) if has_scales else None
    try:
        decode(stored[:0], scales)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return stored, scales


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(f"{path} is no .npy of vectors ({error})") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise DataError(f"{path} is an .npz of several arrays; expected one array, a .npy")
    return found


class ResumableWriter:
    """Writes vectors in order, and notes what is safe."""

    def __init__(self, path: Path, key: dict[str, Any], resume: bool, overwrite: bool) -> None:
        """Start, or go on.

        Args:
            path: the file to be.
            key: all that the rows depend on but the texts.
            resume: go on with what a killed run left.
            overwrite: throw it away.

        Raises:
            ConfigError: there is an unfinished file and neither is asked, or it is of other
                settings or another model.
            MissingExtra: pyarrow is not installed, for Parquet.
        """
        if path.suffix == ".parquet":
            _pyarrow()
        self.path, self.key = path, key
        self.partial = path.with_name(f".{path.name}.partial")
        self.journal = path.with_name(f".{path.name}.journal")
        self.rows = 0
        self.digest = hashlib.sha256()
        self.row_shape: list[int] | None = None
        self.dtype = ""
        self.old_digest = ""
        self.schema: Any = None
        """Of Arrow batches."""
        self.scales: Float32s | None = None
        """Of int8, to be set before its first rows are written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        if overwrite:
            self.journal.unlink(missing_ok=True)
        elif self.journal.is_file():
            size = self._read_journal(resume)
        self.file = self.partial.open("r+b" if size else "wb")
        self.file.truncate(size)
        self.file.seek(size)

    def _read_journal(self, resume: bool) -> int:
        if not resume:
            raise ConfigError(
                f"an unfinished {self.path.name} is in {self.path.parent}: pass --resume to go on "
                "with it, or --overwrite to start anew"
            )
        try:
            state = json.loads(self.journal.read_text(encoding="utf-8"))
            old, size = dict(state["key"]), int(state["bytes"])
            self.rows, self.old_digest = int(state["rows"]), str(state["digest"])
            self.row_shape, self.dtype = state["row_shape"], str(state["dtype"])
            if state["scales"] is not None:
                self.scales = np.array(state["scales"], np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                f"{self.journal} is damaged ({error}); start anew with --overwrite"
            ) from error
        differing = sorted(k for k in old.keys() | self.key.keys() if old.get(k) != self.key.get(k))
        if differing:
            raise ConfigError(
                f"the unfinished {self.path.name} was made with another {', '.join(differing)}; go "
                "on with the same, or start anew with --overwrite"
            )
        if not self.partial.is_file() or self.partial.stat().st_size < size:
            raise IntegrityError(
                f"{self.partial} is shorter than its journal says; start anew with --overwrite"
            )
        return size

    def skip(self, texts: Sequence[Text]) -> None:
        """Texts whose rows are there."""
        self._digest(texts)

    def check_skipped(self) -> None:
        """Raise DataError unless the texts left out are those of the rows that are there."""
        if self.rows and self.digest.hexdigest() != self.old_digest:
            raise DataError(
                f"the first {self.rows:,} texts are not those that the unfinished "
                f"{self.path.name} holds: the input was changed; start anew with --overwrite"
            )

    def write(self, stored: npt.NDArray[Any], texts: Sequence[Text]) -> None:
        """Add rows and note that they are there."""
        if self.path.suffix == ".npy":
            self._write_array(stored)
        elif self.path.suffix == ".parquet":
            plain = [text if isinstance(text, str) else list(text) for text in texts]
            self._write_batch({"text": plain, "vector": _arrow_rows(stored)})
        else:
            for text, row in zip(texts, stored, strict=True):
                line = {"text": text, "vector": row.tolist()}
                self.file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._note(len(stored), texts)

    def write_tokens(self, lines: Sequence[dict[str, Any]], texts: Sequence[Text]) -> None:
        """Add objects with the same keys, one a text; the last is `vectors`, `[T, W]`."""
        if self.path.suffix == ".parquet":
            columns: dict[str, Any] = {key: [line[key] for line in lines] for key in lines[0]}
            ends = np.cumsum([0, *map(len, columns["vectors"])], dtype=np.int32)
            rows = _arrow_rows(np.concatenate(columns["vectors"]))
            columns["vectors"] = _pyarrow().ListArray.from_arrays(ends, rows)
            self._write_batch(columns)
        else:
            for line in lines:
                self._write_json(line)
        self._note(len(lines), texts)

    def finish(self) -> None:
        """Write what stands at the end, and give the file its name."""
        if self.path.suffix == ".npy":
            self.file.seek(0)
            self.file.write(npy_header(self.dtype, [self.rows, *(self.row_shape or [])]))
        self.file.close()
        whole = self.partial
        if self.path.suffix == ".parquet":
            whole = self.path.with_name(f".{self.path.name}.whole")
            _to_parquet(self.partial, whole)
        sync_file(whole)
        self._write_scales()
        whole.replace(self.path)
        self.journal.unlink(missing_ok=True)
        self.partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go; what is noted stays for `resume`."""
        self.file.close()
        if not self.rows:
            self.partial.unlink(missing_ok=True)

    def _write_scales(self) -> None:
        """Put the scales of int8 in their place, and what the file replaces out of it."""
        scales = scales_path(self.path)
        if self.path.is_file() and (self.scales is not None or scales.is_file()):
            self.path.unlink()
            scales.unlink(missing_ok=True)
        if self.scales is not None:
            fresh = scales.with_name(f".{scales.name}.partial")
            with fresh.open("wb") as file:
                np.save(file, self.scales)
            sync_file(fresh)
            fresh.replace(scales)

    def _write_array(self, stored: npt.NDArray[Any]) -> None:
        if self.row_shape is None:
            self.row_shape, self.dtype = list(stored.shape[1:]), stored.dtype.str
            self.file.write(npy_header(self.dtype, [0, *self.row_shape]))
        self.file.write(np.ascontiguousarray(stored).data)

    def _write_json(self, line: dict[str, Any]) -> None:
        """A row of numbers at a time: Python's take eight times the room of the array's."""
        rest = {key: value for key, value in line.items() if key != "vectors"}
        start = json.dumps(rest, ensure_ascii=False)[:-1]
        self.file.write(f'{start}, "vectors": ['.encode())
        for number, row in enumerate(line["vectors"]):
            self.file.write((", " * bool(number) + json.dumps(row.tolist())).encode())
        self.file.write(b"]}\n")

    def _write_batch(self, columns: dict[str, Any]) -> None:
        arrow = _pyarrow()
        if self.schema is None and self.rows:
            with arrow.ipc.open_stream(str(self.partial)) as stream:
                self.schema = stream.schema
        batch = arrow.RecordBatch.from_pydict(columns, schema=self.schema)
        if not self.rows:
            self.file.write(batch.schema.serialize())
        self.schema = batch.schema
        self.file.write(batch.serialize())

    def _note(self, count: int, texts: Sequence[Text]) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self._digest(texts)
        self.rows += count
        state = {
            "key": self.key,
            "rows": self.rows,
            "bytes": self.file.tell(),
            "digest": self.digest.hexdigest(),
            "row_shape": self.row_shape,
            "dtype": self.dtype,
            "scales": None if self.scales is None else self.scales.tolist(),
        }
        fresh = self.journal.with_name(f"{self.journal.name}.new")
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(self.journal)

    def _digest(self, texts: Sequence[Text]) -> None:
        # "a","b", : the same however the texts fall into calls
        self.digest.update(json.dumps(list(texts), separators=(",", ":")).encode()[1:-1] + b",")


def _arrow_rows(stored: npt.NDArray[Any]) -> Any:
    """`[n, W]` as n lists of one size."""
    arrow = _pyarrow()
    numbers = arrow.array(np.ascontiguousarray(stored).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(numbers, stored.shape[1])


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


def npy_header(dtype: str, shape: Sequence[int]) -> bytes:
    """A header of `.npy` version 1.0 that is always `HEADER` bytes long."""
    shown = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shown}, }}"
    return (
        b"\x93NUMPY\x01\x00"
        + (HEADER - 10).to_bytes(2, "little")
        + (text.ljust(HEADER - 11).encode("latin1") + b"\n")
    )
