"""Files of vectors, `.npy`, `.jsonl` or `.parquet`, that a killed run continues.

Rows are appended to `.NAME.partial`; beside it `.NAME.journal` has a line for each block of rows:
how many are on the disk, a digest of their texts, and the SHA-256 of the block, which a run that
continues compares with what the disk holds. Its first line has the settings, too. What was written
after the last line is truncated and made again. `.npy` gets the number of its rows at the end; a
reader maps the file. Parquet cannot be appended to: its rows wait in a stream of Arrow batches,
each a row group in the end. The file appears by one rename, which the journal notes before; the
ranges of int8 appear just before it, and what they replace is removed first, so that no vectors
ever lie beside the ranges of others.

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
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_path, sha256_file, sole_writer, sync_file
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
    """Where the journal of an unfinished file is."""
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


class FinishedFile:
    """The rows of a file of vectors that was written to its end."""

    def __init__(self, path: Path) -> None:
        """Count the rows.

        Raises:
            DataError: it is no file of vectors.
        """
        self.path, self.scales = path, None
        try:
            if path.suffix == ".npy":
                self._stored, self.scales = read_vectors(path)
                self.rows = len(self._stored)
                return
            if scales_path(path).is_file():
                self.scales = np.load(scales_path(path))
            if path.suffix == ".parquet":
                from pyarrow import parquet

                self.rows = int(parquet.ParquetFile(path).metadata.num_rows)
            else:
                with path.open("rb") as file:
                    self.rows = sum(1 for _ in file)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no file of vectors ({error})") from error

    def __iter__(self) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """The text of each row, None where `.npy` has none, and what is stored of its vectors."""
        if self.path.suffix == ".npy":
            yield from ((None, row) for row in self._stored)
        elif self.path.suffix == ".parquet":
            from pyarrow import parquet

            for batch in parquet.ParquetFile(self.path).iter_batches(256):
                yield from map(_text_and_vectors, batch.to_pylist())
        else:
            with self.path.open("rb") as file:
                for line in file:
                    try:
                        yield _text_and_vectors(json.loads(line))
                    except (ValueError, KeyError, TypeError, IndexError) as error:
                        raise DataError(f"{self.path} has a damaged line ({error})") from error


def _text_and_vectors(row: dict[str, Any]) -> tuple[Any, npt.NDArray[Any]]:
    text = row["text"]
    return text, np.array(row["vectors" if "vectors" in row else "vector"])


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
            DataError: another process is writing the file.
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
        self.block = hashlib.sha256()
        """Of what was written since the last line of the journal."""
        self.renamed = False
        """Whether the run was killed after the file got its name."""
        self.state: dict[str, Any] = {"rows": 0, "bytes": 0, "digest": "", "end": False}
        """What the lines of the journal say, the newest last."""
        self.once: dict[str, Any] = {"key": key}
        """What its first line says beside."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(sole_writer(path))
            if overwrite:
                self.journal.unlink(missing_ok=True)
            elif self.journal.is_file():
                self._read_journal(key, resume)
            if not self.renamed:
                size = self.state["bytes"]
                self.file = stack.enter_context(self.partial.open("r+b" if size else "w+b"))
                self.file.truncate(size)
                self.file.seek(size)
            self.open = stack.pop_all()

    @property
    def rows(self) -> int:
        """Rows that are on the disk."""
        return int(self.state["rows"])

    def _read_journal(self, key: dict[str, Any], resume: bool) -> None:
        """Take over what an earlier run noted, and check that the disk still holds it."""
        if not resume:
            raise ConfigError(
                f"an unfinished {self.path.name} is in {self.path.parent}: pass --resume to "
                "continue it, or --overwrite to start again"
            )
        try:
            lines = _read_lines(self.journal)
            for line in lines:
                self.state |= line
            old = dict(self.state.get("key", key))
            self.renamed = self.state["end"] and not self.whole.exists() and self.path.is_file()
            self._verify(lines)
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise IntegrityError(
                f"the unfinished {self.path} is damaged ({error}); start again with --overwrite"
            ) from error
        if differing := sorted(k for k in old | key if old.get(k) != key.get(k)):
            raise ConfigError(
                f"the unfinished {self.path.name} was made with another {', '.join(differing)}; "
                "continue with the same, or start again with --overwrite"
            )
        if (scales := self.state.get("scales")) is not None:
            self.coder.scales = np.array(scales, np.float32)

    def _verify(self, lines: list[dict[str, Any]]) -> None:
        """Raise ValueError unless the blocks of the journal's lines are on the disk as written."""
        written = self.path if self.renamed else self.partial
        if self.renamed and written.suffix == ".parquet":
            if sha256_file(written) != self.state["whole"]:
                raise ValueError(f"{written} was changed after it was written")
            return
        # The header of .npy is written again at the end, and belongs to no block.
        start, rows = self.state.get("start", 0), 0
        for line in lines:
            if not line["end"] and _sha256_of(written, start, line["bytes"]) != line["sha256"]:
                raise ValueError(
                    f"rows {rows + 1:,} to {line['rows']:,} in {written} are not what was written: "
                    "they were truncated or changed"
                )
            start, rows = line["bytes"], line["rows"]
        if (
            self.renamed
            and written.suffix == ".npy"
            and len(npy.open_memmap(written, mode="r")) != rows
        ):
            raise ValueError(f"the header of {written} was changed after it was written")

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
                self.once["header"] = npy.header_data_from_array_1_0(stored)
                self._write_header(self.once["header"])
                self.once["start"] = self.file.tell()
            self._write(stored.data)
        elif self.path.suffix == ".parquet":
            batch = _arrow_batch(columns)
            if not self.rows:
                self._write(batch.schema.serialize())
            self._write(batch.serialize())
        else:
            for *others, own in zip(*columns.values(), strict=True):
                line = json.dumps(dict(zip(names, others, strict=True)), ensure_ascii=False)
                self._write(f'{line[:-1]}, "{last}": {_numbers(own)}}}\n'.encode())
        self.skip(texts)
        self.state["rows"] += len(texts)
        self._write_journal()

    def _write(self, block: Any) -> None:
        self.file.write(block)
        self.block.update(block)

    def finish(self) -> None:
        """Write what belongs to the end, and give the file its name."""
        if not self.renamed:
            if self.path.suffix == ".npy":
                self.file.seek(0)
                self._write_header(self.state["header"])
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
        with self.open:
            try:
                if not self.renamed:
                    self.file.close()  # which may write, and fail on a full disk
            finally:
                if "key" not in self.state:  # no block is noted: there is nothing to continue
                    self.partial.unlink(missing_ok=True)
                    self.journal.unlink(missing_ok=True)

    def _write_header(self, header: dict[str, Any]) -> None:
        # NumPy leaves room for more rows: the header of any number of them is as long
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
        line = {
            "rows": self.rows,
            "bytes": self.file.tell(),
            "digest": self.digest.hexdigest(),
            "sha256": self.block.hexdigest(),
            "end": end,
        }
        if "key" not in self.state:
            line |= self.once | ({} if scales is None else {"scales": scales.tolist()})
        if end and self.path.suffix == ".parquet":
            line["whole"] = sha256_file(self.whole)
        _append(self.journal, line)
        self.state |= line
        self.block = hashlib.sha256()


def _sha256_of(path: Path, start: int, stop: int) -> str:
    """The SHA-256 of bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(min(1 << 20, stop - file.tell())):
            digest.update(block)
    return digest.hexdigest()


def _append(journal: Path, line: dict[str, Any]) -> None:
    """Append a line to a journal: a check sum and a JSON object."""
    text = json.dumps(line).encode()
    with journal.open("ab") as file:
        file.write(b"%08x %b\n" % (zlib.crc32(text), text))


def _read_lines(journal: Path) -> list[dict[str, Any]]:
    """The lines of a journal; one that a kill cut at its end is removed.

    Raises:
        ValueError: a line is damaged.
    """
    content = journal.read_bytes()
    whole, _, cut = content.rpartition(b"\n")
    if cut:
        os.truncate(journal, len(content) - len(cut))
    lines = []
    for number, line in enumerate(whole.splitlines(), 1):
        check, _, text = line.partition(b" ")
        if check != b"%08x" % zlib.crc32(text):
            raise ValueError(f"line {number} of {journal} was changed")
        lines.append(json.loads(text))
    return lines


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
