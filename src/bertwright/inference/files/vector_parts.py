"""Write a file of vectors in parts, such that a killed run can be resumed.

| file | content |
|---|---|
| `NAME.parts/key.json` | everything that the rows depend on, apart from their texts |
| `NAME.parts/scales.npy` | the scales of int8 |
| `NAME.parts/00017` | the rows of a part: numbers of `.npy`, lines of JSON, or an Arrow stream |
| `NAME.parts/00017.json` | `Part`, written last; rows without it are written again |
| `NAME.parts/whole` | the file, to which the parts are appended when all are there |
| `NAME.parts/whole.json` | `Finished`, written when `whole` is complete |
| `NAME.key.json` | the same, beside the file that has its final name |

A run is resumed after the parts that are there. A part is removed once it is flushed into `whole`,
so that the rows need their space on the disk once. Parquet is readable only when its end is
written: its parts are kept until then, and become row groups.

At the end, the scales and then the file are renamed, after the files that they replace were
removed, so that vectors are never beside the scales of other vectors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from bertwright.atomic import atomic_file, sha256_file, sync_file
from bertwright.config.values import differing_keys
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.inference.files.stored_vectors import Coder, scales_path

if TYPE_CHECKING:  # it imports torch
    from bertwright.inference.encode import Text

_OURS = re.compile(r"\d+(\.json)?|whole(\.json)?|key\.json|scales\.npy|\..+")
"""The names of files in the folder of parts; a hidden one is what a killed run left."""


@dataclass(frozen=True)
class Part:
    """The rows of a part."""

    rows: int
    bytes: int
    sha256: str
    texts: str
    """The SHA-256 of all texts up to the end of this part."""


@dataclass(frozen=True)
class Finished:
    """A complete file of vectors."""

    rows: int
    sha256: str
    texts: str
    """The SHA-256 of all texts."""
    scales: str | None
    """The SHA-256 of the scales of int8."""
    key: dict[str, Any]
    """Everything that the rows depend on, apart from their texts."""


def key_path(path: Path) -> Path:
    """Return the path of the description of a finished file, `Finished`."""
    return path.with_name(f"{path.name}.key.json")


def parts_path(path: Path) -> Path:
    """Return the folder that holds the parts of an unfinished file."""
    return path.with_name(f"{path.name}.parts")


class PartWriter:
    """Writes vectors in order, part by part, and makes one file of the parts."""

    def __init__(
        self, path: Path, key: dict[str, Any], coder: Coder, resume: bool, overwrite: bool
    ) -> None:
        """Start a file, continue an unfinished one, or check a finished one.

        Raises:
            ConfigError: the file is unfinished, and neither `resume` nor `overwrite` is given; or
                it was made with another key.
            IntegrityError: the file or its parts are damaged.
        """
        self.path, self.key, self.coder = path, key, coder
        self.folder = parts_path(path)
        self.whole, self.record = self.folder / "whole", self.folder / "whole.json"
        self.scales = self.folder / "scales.npy"
        self.parts: list[Part] = []
        self.finished: Finished | None = None
        """The description of the file if it is complete."""
        self.digest = hashlib.sha256()
        """The digest of the texts up to now."""
        if overwrite or not self._begun():
            self._clear()
        elif not resume:
            raise ConfigError(
                f"an unfinished {path.name} is in {path.parent}: pass --resume to continue it, or "
                "--overwrite to start again"
            )
        if resume and not overwrite:
            try:
                self._read()
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                if isinstance(error, ConfigError):
                    raise
                raise IntegrityError(
                    f"{path} or its parts are damaged ({error}): start again with --overwrite"
                ) from error
        if path.suffix == ".parquet" and self.finished is None and find_spec("pyarrow") is None:
            raise MissingExtra("hf", "pyarrow", "writing .parquet files")

    @property
    def rows(self) -> int:
        """The number of rows that are on the disk."""
        return self.finished.rows if self.finished else sum(part.rows for part in self.parts)

    def _begun(self) -> bool:
        return self.record.is_file() or self._part(0, ".json").is_file()

    def _part(self, number: int, suffix: str = "") -> Path:
        return self.folder / f"{number:05d}{suffix}"

    def _read(self) -> None:
        """Read what is there, and check that it is what was written by the same key."""
        if self.record.is_file():
            self._read_finished(self.record)
        elif self._begun():
            self._read_parts()
        elif self.path.is_file():
            if not key_path(self.path).is_file():
                raise ConfigError(
                    f"{self.path} exists already, and {key_path(self.path).name}, with which it "
                    "could be checked, is not beside it: choose another --out, or pass --overwrite"
                )
            self._read_finished(key_path(self.path))

    def _read_finished(self, record: Path) -> None:
        finished = Finished(**json.loads(record.read_bytes()))
        self._check_key(finished.key)
        _check_sha256(self.whole if self.whole.is_file() else self.path, finished.sha256)
        if finished.scales is not None:
            new, final = self.scales, scales_path(self.path)
            _check_sha256(new if new.is_file() else final, finished.scales)
        self.finished = finished

    def _read_parts(self) -> None:
        """Read the parts; those that are in `whole` already come first."""
        key = json.loads((self.folder / "key.json").read_bytes())
        self._check_key(key["key"])
        if key["scales"] is not None:
            _check_sha256(self.scales, key["scales"])
            self.coder.scales = np.load(self.scales)
        numbers = sorted(int(path.stem) for path in self.folder.glob("[0-9]*.json"))
        self.parts = [Part(**json.loads(self._part(n, ".json").read_bytes())) for n in numbers]
        appended = [not self._part(n).is_file() for n in numbers]
        if numbers != [*range(len(numbers))] or appended != sorted(appended, reverse=True):
            raise ValueError(f"{self.folder} has lost parts")
        if any(appended):
            with self.whole.open("rb") as file:
                file.seek(len(self._header()))
                for part in self.parts[: sum(appended)]:
                    if _sha256_of(file, part.bytes) != part.sha256:
                        raise ValueError(f"{self.whole} was changed after it was written")
        for number in numbers[sum(appended) :]:
            _check_sha256(self._part(number), self.parts[number].sha256)

    def _check_key(self, key: dict[str, Any]) -> None:
        if differing := sorted(differing_keys(key, self.key)):
            raise ConfigError(
                f"{self.path} was made with another {', '.join(differing)}; use the same, choose "
                "another --out, or start again with --overwrite"
            )

    def skip(self, texts: Sequence[Text]) -> None:
        """Skip texts whose rows are already written, and add the texts to the digest."""
        # "a","b", : the digest does not depend on how the texts are divided into calls
        self.digest.update(json.dumps(list(texts), separators=(",", ":")).encode()[1:-1] + b",")

    def check_skipped(self) -> None:
        """Raise DataError if the skipped texts are not the texts of the existing rows."""
        last = self.finished or (self.parts[-1] if self.parts else None)
        if last is not None and last.texts != self.digest.hexdigest():
            raise DataError(
                f"the texts are not those of the {self.rows:,} rows that {self.path.name} has "
                "already: the input was changed; start again with --overwrite"
            )

    def write(self, columns: dict[str, Sequence[Any]], texts: Sequence[Text]) -> None:
        """Write a part with a row for each text.

        The last column holds the vectors, `[n, W]` or n times `[T, W]`; `.npy` stores only these.
        """
        if not self.parts:
            self._write_key()
        number, digest = len(self.parts), hashlib.sha256()
        with self._part(number).open("wb") as file:
            for block in _blocks(self.path.suffix, columns):
                file.write(block)
                digest.update(block)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        self.skip(texts)
        part = Part(len(texts), size, digest.hexdigest(), self.digest.hexdigest())
        _write_json(self._part(number, ".json"), asdict(part))
        self.parts.append(part)

    def _write_key(self) -> None:
        self.folder.mkdir(exist_ok=True)
        if self.coder.scales is not None:
            np.save(self.scales, self.coder.scales)
            sync_file(self.scales)
        _write_json(self.folder / "key.json", {"key": self.key, "scales": self._sha256_of_scales()})

    def _sha256_of_scales(self) -> str | None:
        return sha256_file(self.scales) if self.coder.scales is not None else None

    def finish(self) -> None:
        """Make one file of the parts, and give it its final name."""
        if self.finished is None:
            if self.path.suffix == ".parquet":
                self._write_parquet()
            else:
                self._append_parts()
            texts, scales = self.digest.hexdigest(), self._sha256_of_scales()
            self.finished = Finished(self.rows, sha256_file(self.whole), texts, scales, self.key)
            _write_json(self.record, asdict(self.finished))
        if self.record.is_file():
            self._rename()

    def _append_parts(self) -> None:
        """Append the parts to `whole`, each of which is removed when it is on the disk there."""
        self.whole.touch()
        sync_file(self.folder)
        with self.whole.open("r+b") as whole:
            whole.write(self._header())
            for number, part in enumerate(self.parts):
                path = self._part(number)
                if not path.is_file():
                    whole.seek(part.bytes, os.SEEK_CUR)
                    continue
                with path.open("rb") as rows:
                    shutil.copyfileobj(rows, whole, 1 << 20)
                whole.flush()
                os.fsync(whole.fileno())
                path.unlink()
            whole.truncate()  # a kill may have left more

    def _header(self) -> bytes:
        """Return the first bytes of the file. Their number does not depend on that of the rows."""
        if self.path.suffix != ".npy":
            return b""
        dtype = np.dtype("uint8" if self.coder.dtype == "binary" else self.coder.dtype)
        width = self.parts[0].bytes // self.parts[0].rows // dtype.itemsize
        header = {
            "descr": npy.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self.rows, width),
        }
        file = BytesIO()
        npy.write_array_header_1_0(file, header)
        return file.getvalue()

    def _write_parquet(self) -> None:
        """Write the parts to `whole`, each as a row group."""
        from pyarrow import ipc, parquet

        with ipc.open_stream(str(self._part(0))) as first:
            schema = first.schema
        with parquet.ParquetWriter(self.whole, schema) as writer:
            for number in range(len(self.parts)):
                with ipc.open_stream(str(self._part(number))) as batches:
                    for batch in batches:
                        writer.write_batch(batch)
        sync_file(self.whole)

    def _rename(self) -> None:
        """Give the complete file, its scales and its description their final names."""
        self._clear(keep=("whole", "whole.json", "scales.npy"))
        scales = scales_path(self.path)
        if self.whole.is_file():
            key_path(self.path).unlink(missing_ok=True)
            if self.path.is_file() and (self.scales.is_file() or scales.is_file()):
                self.path.unlink()
                scales.unlink(missing_ok=True)
            if self.scales.is_file():
                self.scales.replace(scales)
            self.whole.replace(self.path)
        self.record.replace(key_path(self.path))
        sync_file(self.path.parent)
        self._clear()

    def close(self) -> None:
        """Remove the folder of parts if it has none, so that there is nothing to resume."""
        if not self._begun():
            self._clear()

    def _clear(self, keep: Sequence[str] = ()) -> None:
        """Remove the files in the folder of parts that may be ours, and the folder if it is empty
        then.
        """
        # records first: rows without one are never read
        for path in sorted(self.folder.glob("*"), key=lambda path: path.suffix != ".json"):
            if _OURS.fullmatch(path.name) and path.name not in keep:
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def _check_sha256(path: Path, expected: str) -> None:
    """Raise ValueError if a file is not what was written."""
    if sha256_file(path) != expected:
        raise ValueError(f"{path} was changed after it was written")


def _sha256_of(file: BinaryIO, size: int) -> str:
    """Return the SHA-256 of the next `size` bytes of a file."""
    digest = hashlib.sha256()
    while size > 0 and (block := file.read(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic_file(path, overwrite=True) as file:
        json.dump(content, file, indent=1)


def _blocks(suffix: str, columns: dict[str, Sequence[Any]]) -> Iterator[Any]:
    """Yield the bytes of a part."""
    *names, last = columns
    if suffix == ".npy":
        yield np.ascontiguousarray(columns[last]).data
    elif suffix == ".parquet":
        batch = _arrow_batch(columns)
        yield batch.schema.serialize()
        yield batch.serialize()
    else:
        for *others, vectors in zip(*columns.values(), strict=True):
            line = json.dumps(dict(zip(names, others, strict=True)), ensure_ascii=False)
            yield f'{line[:-1]}, "{last}": {_numbers(vectors)}}}\n'.encode()


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
