"""Open a file or standard input as decompressed bytes; say what is near a path that is missing.

Compression is recognized by the file name.
"""

from __future__ import annotations

import difflib
import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from bertwright.config import hub
from bertwright.errors import BertwrightError, DataError
from bertwright.rows.compressed import BLOCK_BYTES, COMPRESSED_SUFFIXES, Decompressed


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

    If no path here is similar, and the path could be the name of a model on the Hugging Face hub,
    the message says how to get that.

    Args:
        error: the class of the error.
        path: the given path.
        expected: a description of the folder, such as `the folder of a tokenizer`.
        command: the command that writes such a folder.
    """
    nearest = nearest_name(path)
    message = (
        f"no folder {path}: expected {expected}{nearest or '.'} Such a folder is written by: "
        f"{command}"
    )
    if nearest or not hub.could_be_id(path):
        return error(message)
    wanted = f"{hub.PREFIX}{path}"
    hub_error = error(f"{message}. A model of the Hugging Face hub is named hf:ORG/NAME: {wanted}")
    hub_error.retry = (str(path), wanted)
    return hub_error


def name_of(path: Path) -> str:
    """Return the name of a file for messages."""
    return "standard input" if str(path) == "-" else str(path)


def suffix_of(path: Path) -> str:
    """Return the suffix in lower case, without that of compression; "" for standard input."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((each for each in reversed(suffixes) if each not in COMPRESSED_SUFFIXES), "")


def size_on_disk(paths: Iterable[Path]) -> int | None:
    """Return the bytes of all files, or None if one has no size (standard input, `hf:`)."""
    total = 0
    for path in paths:
        if not path.is_file():
            return None
        total += path.stat().st_size
    return total


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, or standard input for `-`, as a stream of its decompressed bytes.

    Raises:
        DataError: the file is missing or unreadable; while reading, if the data are truncated or
            corrupt.
        MissingExtra: zstandard is not installed.
    """
    return open_with_position(path)[0]


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
    at = 0

    def position() -> int:
        nonlocal at
        if not file.closed and file.seekable():
            at = file.tell()
        return at

    kind = path.suffix.lower()
    if kind not in COMPRESSED_SUFFIXES:
        return cast(BinaryIO, file), position
    plain = Decompressed(cast(BinaryIO, file), kind, name)
    return io.BufferedReader(plain, BLOCK_BYTES), position
