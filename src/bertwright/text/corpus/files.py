"""Find the files of a corpus, and open them as decompressed bytes.

Compression is recognized by the file name. Truncated or corrupt streams raise `DataError`, even
where the library would end silently (zstandard).
"""

from __future__ import annotations

import bz2
import difflib
import glob
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from bertwright.config import hub
from bertwright.errors import BertwrightError, ConfigError, DataError, MissingExtra

TEXT_SUFFIXES = (".txt", ".text")
ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
BLOCK_BYTES = 1 << 20
EXTRACT = (
    "extract the text of a PDF (pdftotext FILE.pdf FILE.txt), save a sheet as CSV, a document as "
    "plain text"
)
"""Advice for files of other programs."""

_WIKI_FILE = re.compile(r"wiki_\d+(?:\.bz2)?$")
"""WikiExtractor's files, which have no extension."""
_LANGUAGE = re.compile(r"\.[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,8}){0,2}")
"""An extension that may name a language: `.en`, `.deu`, `.zh_CN`, `.sr-Latn`."""


def format_of(path: Path) -> str:
    """Return the suffix that names the format (`.txt`, `.jsonl`), without compression; "" if
    unknown.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    if _WIKI_FILE.match(path.name):
        return ".wiki"
    suffix = suffixes[-1] if suffixes else ""
    return suffix if suffix in TEXT_SUFFIXES + ROW_SUFFIXES else ""


def find_files(inputs: Sequence[str], passed_over: list[Path] | None = None) -> list[Path]:
    """Return the files to read, in a fixed order, each of them once (even if links lead to it).

    Args:
        inputs: files; folders (searched recursively, also through links, with files in sorted
            order, without hidden ones); two files of parallel text (`are_parallel`); globs (also
            `**`). `-` for standard input and `hf:NAME[@CONFIG][:SPLIT]` are returned as they are.
        passed_over: receives the files of folders whose extension is unknown.

    Raises:
        ConfigError: no input is given.
        DataError: a file is missing, unreadable or of unknown format, or a glob or folder has no
            files.
    """
    if not inputs:
        raise ConfigError(
            "no corpus given; name files, folders, globs, - for standard input, or hf:NAME"
        )
    others: list[Path] = [] if passed_over is None else passed_over
    by_real_path: dict[str, Path] = {}
    if are_parallel(inputs):
        return [Path(given) for given in inputs]
    for given in inputs:
        for path in _find(given, others):
            by_real_path.setdefault(os.path.realpath(path), path)
    return list(by_real_path.values())


def are_parallel(inputs: Sequence[str]) -> bool:
    """Return whether these are two files of parallel text, such as `train.en` and `train.de`.

    They have the same name and two different extensions that name no other format; both may be
    compressed.
    """
    if len(inputs) != 2:
        return False
    first, second = (
        path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path
        for path in map(Path, inputs)
    )
    return (
        first.with_suffix("") == second.with_suffix("")
        and first.suffix != second.suffix
        and all(_LANGUAGE.fullmatch(path.suffix) for path in (first, second))
        and not any(map(format_of, (first, second)))
        and all(Path(given).is_file() for given in inputs)
    )


def _find(given: str, passed_over: list[Path]) -> Iterable[Path]:
    path = Path(given)
    if given == "-" or given.startswith("hf:"):
        return [path]
    if path.is_dir():
        return _in_folder(path, passed_over)
    if path.exists():
        if not format_of(path):
            raise DataError(
                f"{given} has an unknown extension; known are {_known()}. Rename it if it is text; "
                f"{EXTRACT}; write JSON with one object per line, as .jsonl"
            )
        return [path]
    if glob.has_magic(given):
        matches = sorted(Path(match) for match in glob.glob(given, recursive=True))
        files = [match for match in matches if match.is_file() and format_of(match)]
        if not files:
            raise DataError(
                f"no file with a known extension matches {given} ({len(matches)} matches in all); "
                f"known are {_known()}"
            )
        return files
    raise DataError(f"no such file or folder: {given}{nearest_name(path)}")


def _in_folder(folder: Path, passed_over: list[Path]) -> list[Path]:
    files: list[Path] = []
    others: list[Path] = []
    entered: set[str] = set()
    for where, names, leaves in os.walk(folder, onerror=_refuse_unreadable, followlinks=True):
        here = os.path.realpath(where)
        if here in entered:  # a link led back to this folder
            names.clear()
            continue
        entered.add(here)
        names[:] = sorted(name for name in names if not name.startswith("."))
        for leaf in leaves:
            if not leaf.startswith("."):
                path = Path(where, leaf)
                (files if format_of(path) else others).append(path)
    if not files:
        seen = sorted({path.suffix or "no extension" for path in others})[:8]
        has = f"it has {', '.join(seen)}" if seen else "it is empty"
        raise DataError(f"no file with a known extension ({_known()}) in {folder}; {has}")
    passed_over.extend(sorted(others))
    return sorted(files)


def _refuse_unreadable(error: OSError) -> None:
    raise DataError(
        f"{error.filename} cannot be read: {error.strerror}; make it readable, or leave it out"
    ) from error


def _known() -> str:
    return (
        f"{' '.join(TEXT_SUFFIXES + ROW_SUFFIXES)}, each also with {' '.join(COMPRESSED_SUFFIXES)}"
    )


def nearest_name(path: Path) -> str:
    """Return `; did you mean PATH?` for a path that does not exist, or an empty string.

    If the folder does not exist either, its name is corrected first. A name without a similar
    neighbour is also searched in `runs`, the usual folder of runs, and in the current folder.
    """
    nearest = _nearest(path)
    for folder in (Path("runs"), Path()):
        nearest = nearest or _nearest(folder / path.name, cutoff=0.8)
    return f"; did you mean {nearest}?" if nearest else ""


def _nearest(path: Path, cutoff: float = 0.6) -> Path | None:
    """Return the existing path that is most similar to `path`, in its folder or in the most similar
    one.
    """
    if path.exists():
        return path
    folder = path.parent
    if folder != path and not folder.exists():
        corrected = _nearest(folder)
        return corrected and _nearest(corrected / path.name)
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=cutoff)
    return folder / near[0] if near else None


Missing = TypeVar("Missing", bound=BertwrightError)


def no_folder(error: type[Missing], path: Path, expected: str, command: str) -> Missing:
    """Return the error for a path that should be a folder and is not.

    For the name of a well-known model, the message says how to get it from the Hugging Face hub.

    Args:
        error: the class of the error.
        path: the given path.
        expected: a description of the folder, such as `the folder of a tokenizer`.
        command: the command that writes such a folder.
    """
    message = f"no folder {path}: expected {expected}"
    if (wanted := hub.well_known(path)) is None:
        return error(f"{message}{nearest_name(path) or '.'} Such a folder is written by: {command}")
    hub_error = error(
        f"{message}. The Hugging Face hub is asked only for names that begin with {hub.PREFIX}; "
        f"for its model of this name give {wanted}"
    )
    hub_error.retry = (str(path), wanted)
    return hub_error


def size_on_disk(paths: Iterable[Path]) -> int | None:
    """Return the bytes of all files, or None if one has no size (standard input, `hf:`)."""
    total = 0
    for path in paths:
        if not path.is_file():
            return None
        total += path.stat().st_size
    return total


class _CompressedFrame(Protocol):
    """A compressed frame, which is decompressed in parts of a bounded size."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        ...

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Decompress some bytes of the file; return plain bytes, and the part of `data` to feed
        next.

        The plain bytes are empty if the frame needs more data.
        """
        ...


class _ZlibFrame:
    """A member of a .gz file."""

    def __init__(self) -> None:
        self._frame = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._frame.eof

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._frame.decompress(data, BLOCK_BYTES)
        return plain, self._frame.unused_data if self.eof else self._frame.unconsumed_tail


class _BufferingFrame:
    """A stream of an .xz or .bz2 file, whose decompressor keeps the data that it has not used
    yet.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._frame = make()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        rest = b""
        if data and not self._frame.needs_input:
            data, rest = b"", data
        plain = self._frame.decompress(data, BLOCK_BYTES)
        return plain, self._frame.unused_data + rest if self.eof else rest


class _ZstdFrame:
    """A frame of a .zst file. Its decompressor has no output limit, so it is fed little at a time:
    a block of four bytes can hold 128 KiB.
    """

    AT_ONCE = 1 << 10

    def __init__(self, decompressor: Any) -> None:
        self._frame = decompressor.decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._frame.decompress(data[: self.AT_ONCE])
        rest = data[self.AT_ONCE :]
        return plain, self._frame.unused_data + rest if self.eof else rest


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of consecutive frames, in bounded memory; damage is a `DataError`.

    The readers of the standard library treat a damaged frame after the first as the end of the
    file, and zstandard's reader treats a missing end as one.
    """

    def __init__(self, file: BinaryIO, kind: str, name: str) -> None:
        super().__init__()
        self._file, self._name = file, name
        self._new, self._error = _decompressor(kind)
        self._frame: _CompressedFrame | None = None
        self._rest = b""
        """Bytes of the file that no frame has consumed yet."""
        self._ready = memoryview(b"")
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            self._ready = self._ready or self._decompress()
        except (EOFError, OSError, self._error) as error:
            raise DataError(
                f"{self._name}: the compressed data are truncated or corrupt after "
                f"{self._bytes:,} good bytes ({error}); get the file again"
            ) from error
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        self._bytes += size
        return size

    def _decompress(self) -> memoryview:
        """Return the next bytes; empty at the end."""
        while True:
            self._rest = self._rest or self._file.read(1 << 14)
            at_end = not self._rest
            if self._frame is None or self._frame.eof:
                if at_end:
                    return memoryview(b"")
                self._frame = self._new()
            # at the end of the file a frame may still hold bytes that it has not returned
            plain, self._rest = self._frame.feed(self._rest)
            if plain:
                return memoryview(plain)
            if at_end and not self._frame.eof:
                raise EOFError("the last frame has no end")

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _decompressor(kind: str) -> tuple[Callable[[], _CompressedFrame], type[Exception]]:
    """Return a function that makes a decompressor of one frame, and the error that it raises."""
    if kind == ".gz":
        return _ZlibFrame, zlib.error
    if kind == ".xz":
        new = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
        return partial(_BufferingFrame, new), lzma.LZMAError
    if kind == ".bz2":
        return partial(_BufferingFrame, bz2.BZ2Decompressor), OSError
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtra("zst", "zstandard", "reading .zst files") from error
    # 2**31 is the window of `zstd --long=31`, the largest possible one.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return partial(_ZstdFrame, decompressor), zstandard.ZstdError


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, or standard input for `-`, as a stream of its decompressed bytes.

    Raises:
        DataError: the file is missing or unreadable; while reading, if the data are truncated or
            corrupt.
        MissingExtra: zstandard is not installed.
    """
    return open_with_position(path)[0]


def decoded_lines(lines: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield lines of UTF-8 as text, without a byte order mark.

    Raises:
        DataError: a line is not UTF-8; the message names the line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number} of {path} is not UTF-8 ({error.reason}); convert the file: iconv "
                "-f LATIN1 -t UTF-8"
            ) from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, stripped, with their numbers.

    Raises:
        DataError: as `open_bytes` and `decoded_lines`.
    """
    with open_bytes(path) as file:
        for number, line in enumerate(decoded_lines(file, path), 1):
            if line.strip():
                yield number, line.strip()


def open_with_position(path: Path) -> tuple[BinaryIO, Callable[[], int]]:
    """Open a file as `open_bytes` does, with a function that returns the bytes on disk read so
    far.
    """
    is_input, name = str(path) == "-", str(path)
    if is_input:
        name = "standard input"
        if sys.stdin is None:
            raise DataError("standard input is closed; send it text (COMMAND | bertwright ...)")
        if sys.stdin.buffer.closed:
            raise DataError("standard input was read before; - can be given for one file only")
    try:
        file = sys.stdin.buffer if is_input else path.open("rb")
    except OSError as error:
        suggestion = nearest_name(Path(name)) if isinstance(error, FileNotFoundError) else ""
        raise DataError(f"{name} cannot be read: {error.strerror or error}{suggestion}") from error
    position = file.tell if file.seekable() else (lambda: 0)
    kind = path.suffix.lower()
    if kind not in COMPRESSED_SUFFIXES:
        return cast(BinaryIO, file), position
    plain = _Decompressed(cast(BinaryIO, file), kind, name)
    return io.BufferedReader(plain, BLOCK_BYTES), position
