"""Write files of vectors, `.npy`, `.jsonl` or `.parquet`, such that a killed run can be resumed.

Rows are appended to `.NAME.partial`. Beside it, `.NAME.journal` has a line for each block of rows:
how many rows are on the disk, a digest of their texts, and the SHA-256 of the block, which a
resumed run compares with the content of the disk. The first line also has the settings. Data after
the last line are truncated and written again.

A `.npy` file gets the number of its rows at the end, so that a reader can memory-map it. Parquet
cannot be appended to: its rows are first written to a stream of Arrow batches, each of which
becomes a row group. The file appears by one rename, which the journal announces. The scales of int8
are written just before it, after the files that they replace were removed, so that vectors are
never beside the scales of other vectors.

| dtype | a number is stored as |
|---|---|
| float32, float16 | itself |
| int8 | `round((x - low) / step) - 128`; `NAME.scales.npy` holds `[2, W]`: low and step |
| binary | whether it is above 0, eight in a byte, the first in the highest bit (`numpy.packbits`) |

NAME is the whole name: `v.npy.scales.npy`. Letters: n texts, W the width of a vector.
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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.arrays import Float32s
from bertwright.atomic import atomic_path, sha256_file, sole_writer, sync_file
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra

if TYPE_CHECKING:  # it imports torch, and a wrong file is reported before
    from bertwright.inference.encode import Text

Stored = Literal["float32", "float16", "int8", "binary"]
SUFFIXES = (".npy", ".jsonl", ".parquet")


class Coder:
    """Converts vectors to the numbers that are stored."""

    def __init__(self, dtype: Stored) -> None:
        self.dtype = dtype
        self.scales: Float32s | None = None
        """For int8: low and step, `[2, W]`, of the first vectors that were converted."""
        self.clipped = 0
        """For int8: how many numbers were outside the range of the first vectors."""

    def __call__(self, vectors: Float32s) -> npt.NDArray[Any]:
        """Return the stored form: `[n, W]` -> `[n, W]`, or `[n, W / 8]` bytes for binary."""
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
    """Return stored vectors as float32; binary ones as -1 and 1. `scales` are those of int8.

    Raises:
        DataError: the numbers have no known form, or int8 lacks its scales.
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


def check_suffix(out: Path, tokens: bool) -> None:
    """Raise ConfigError unless vectors can be written to a file with this suffix."""
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"--out is {out}; expected a name that ends in .npy, .jsonl or .parquet")
    if tokens and out.suffix == ".npy":
        raise ConfigError(
            f"--out is {out}; texts have tokens in different numbers: write .jsonl or .parquet"
        )


def scales_path(path: Path) -> Path:
    """Return the path of the scales of an int8 file."""
    return path.with_name(f"{path.name}.scales.npy")


def journal_path(path: Path) -> Path:
    """Return the path of the journal of an unfinished file."""
    return path.with_name(f".{path.name}.journal")


def read_vectors(path: Path) -> tuple[npt.NDArray[Any], Float32s | None]:
    """Return the vectors `[n, W]` of a `.npy`, memory-mapped, and their scales if they are int8.

    Raises:
        DataError: there is no such file, it is not a file of vectors, or int8 lacks its scales.
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
    """The rows of a complete file of vectors."""

    def __init__(self, path: Path) -> None:
        """Open the file and count its rows.

        Raises:
            DataError: it is not a file of vectors.
            MissingExtra: Parquet needs pyarrow, which is not installed.
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
                self.rows = int(_parquet(path).metadata.num_rows)
            else:
                with path.open("rb") as file:
                    self.rows = sum(1 for _ in file)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no file of vectors ({error})") from error

    def __iter__(self) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """Yield the text of each row (None in `.npy`, which has no texts) and its stored
        vectors.
        """
        if self.path.suffix == ".npy":
            yield from ((None, row) for row in self._stored)
        elif self.path.suffix == ".parquet":
            for batch in _parquet(self.path).iter_batches(256):
                yield from map(_text_and_vectors, batch.to_pylist())
        else:
            with self.path.open("rb") as file:
                for line in file:
                    try:
                        yield _text_and_vectors(json.loads(line))
                    except (
                        ValueError,
                        KeyError,
                        TypeError,
                        IndexError,
                        RecursionError,
                    ) as error:
                        raise DataError(f"{self.path} has a damaged line ({error})") from error


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("hf", "pyarrow", "reading .parquet files") from error
    return parquet.ParquetFile(path)


def _text_and_vectors(row: dict[str, Any]) -> tuple[Any, npt.NDArray[Any]]:
    text = row["text"]
    return text, np.array(row["vectors" if "vectors" in row else "vector"])


class ResumableWriter:
    """Writes vectors in order, and records in a journal what is on the disk."""

    def __init__(
        self, path: Path, key: dict[str, Any], coder: Coder, resume: bool, overwrite: bool
    ) -> None:
        """Start a file, or continue an unfinished one.

        Args:
            path: the file to write.
            key: everything that the rows depend on, apart from the texts.
            coder: converts the rows. If a file is continued, it gets the scales of that file.
            resume: continue an unfinished file.
            overwrite: discard an unfinished file.

        Raises:
            ConfigError: there is an unfinished file, and neither `resume` nor `overwrite` is given,
                or its key differs.
            DataError: another process is writing the file.
            IntegrityError: the unfinished file or its journal is damaged.
            MissingExtra: Parquet needs pyarrow, which is not installed.
        """
        self.path, self.coder, self.journal = path, coder, journal_path(path)
        self.partial = self.whole = path.with_name(f".{path.name}.partial")
        if path.suffix == ".parquet":
            if find_spec("pyarrow") is None:
                raise MissingExtra("hf", "pyarrow", "writing .parquet files")
            self.whole = path.with_name(f".{path.name}.whole")
        self.digest = hashlib.sha256()
        self.block = hashlib.sha256()
        """The digest of the data written since the last line of the journal."""
        self.renamed = False
        """Whether the run was killed after the file was renamed."""
        self.state: dict[str, Any] = {"rows": 0, "bytes": 0, "digest": "", "end": False}
        """The state according to the lines of the journal; later lines take precedence."""
        self.once: dict[str, Any] = {"key": key}
        """The further entries of the first line of the journal."""
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
        """The number of rows that are on the disk."""
        return int(self.state["rows"])

    def _read_journal(self, key: dict[str, Any], resume: bool) -> None:
        """Read the state of an earlier run, and check that its data are still on the disk."""
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
        """Raise ValueError unless the blocks of the journal's lines are on the disk as they were
        written.
        """
        written = self.path if self.renamed else self.partial
        if self.renamed and written.suffix == ".parquet":
            if sha256_file(written) != self.state["whole"]:
                raise ValueError(f"{written} was changed after it was written")
            return
        # The header of .npy is written again at the end, and is not part of a block.
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
        """Skip texts whose rows are already written, and add the texts to the digest."""
        # "a","b", : the digest does not depend on how the texts are divided into calls
        self.digest.update(json.dumps(list(texts), separators=(",", ":")).encode()[1:-1] + b",")

    def check_skipped(self, more: bool = False) -> None:
        """Raise DataError if the skipped texts are not the texts of the existing rows.

        With `more`, also raise it if the file was complete, because the input then has more texts
        than the file.
        """
        other = self.rows and self.digest.hexdigest() != self.state["digest"]
        if other or (more and self.renamed):
            raise DataError(
                f"the texts are not those of the {self.rows:,} rows that {self.path.name} has "
                "already: the input was changed; start again with --overwrite"
            )

    def write(self, columns: dict[str, Sequence[Any]], texts: Sequence[Text]) -> None:
        """Append a row for each text and record it in the journal.

        Args:
            columns: the columns by name. The last one holds the vectors, `[n, W]` or n times
                `[T, W]`; `.npy` stores only these.
            texts: the texts of the rows.

        Raises:
            DataError: the file was complete, and the input now has more texts.
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
            for *others, vectors in zip(*columns.values(), strict=True):
                line = json.dumps(dict(zip(names, others, strict=True)), ensure_ascii=False)
                self._write(f'{line[:-1]}, "{last}": {_numbers(vectors)}}}\n'.encode())
        self.skip(texts)
        self.state["rows"] += len(texts)
        self._write_journal()

    def _write(self, block: Any) -> None:
        self.file.write(block)
        self.block.update(block)

    def finish(self) -> None:
        """Write the end of the file, and rename it to its final name."""
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
        """Close the file. An unfinished file can be resumed from what its journal records."""
        with self.open:
            try:
                if not self.renamed:
                    self.file.close()  # may write buffered data, and fail on a full disk
            finally:
                if "key" not in self.state:  # no block is recorded: there is nothing to continue
                    self.partial.unlink(missing_ok=True)
                    self.journal.unlink(missing_ok=True)

    def _write_header(self, header: dict[str, Any]) -> None:
        # NumPy pads the header, so that its length does not depend on the number of rows
        shape = (self.rows, *header["shape"][1:])
        npy.write_array_header_1_0(self.file, {**header, "shape": shape})

    def _write_scales(self) -> None:
        """Write the scales of int8 under their final name, after removing the files that will be
        replaced.
        """
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
    """Return the SHA-256 of a range of bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(min(1 << 20, stop - file.tell())):
            digest.update(block)
    return digest.hexdigest()


def _append(journal: Path, line: dict[str, Any]) -> None:
    """Append a line to a journal: a checksum and a JSON object."""
    text = json.dumps(line).encode()
    with journal.open("ab") as file:
        file.write(b"%08x %b\n" % (zlib.crc32(text), text))


def _read_lines(journal: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal. An incomplete last line, which a kill leaves, is removed.

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


def _numbers(vectors: npt.NDArray[Any]) -> str:
    """Return vectors as JSON. It is built row by row, because Python's numbers take eight times the
    memory of an array's.
    """
    if vectors.ndim == 1:
        return json.dumps(vectors.tolist())
    return f"[{', '.join(map(_numbers, vectors))}]"


def _arrow_batch(columns: dict[str, Sequence[Any]]) -> Any:
    """Return a batch of Arrow, with vectors as lists of fixed size."""
    import pyarrow as arrow

    *_, (name, vectors) = columns.items()
    numbers = arrow.array(np.concatenate([np.ravel(of_text) for of_text in vectors]))
    lists = arrow.FixedSizeListArray.from_arrays(numbers, vectors[0].shape[-1])
    if vectors[0].ndim == 2:
        ends = np.cumsum([0, *map(len, vectors)], dtype=np.int32)
        lists = arrow.ListArray.from_arrays(ends, lists)
    return arrow.RecordBatch.from_pydict({**columns, name: lists})


def _to_parquet(stream: Path, path: Path) -> None:
    """Write the batches of a stream as consecutive row groups."""
    from pyarrow import ipc, parquet

    with (
        ipc.open_stream(str(stream)) as batches,
        parquet.ParquetWriter(path, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
