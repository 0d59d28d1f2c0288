"""Folders and files that appear whole or not at all, and manifests that prove it.

A folder is written under a hidden name beside its path, flushed to the disk, and moved to its path
by one rename. So a killed process or a full disk leaves what was there before; the next process
that writes to the path removes what a killed process left under a hidden name. Only one process at
a time may write a path: a second one ends with an error.

A `MANIFEST.json`, which is written last, holds the size and SHA-256 of every file. It also
distinguishes a folder that Bertwright wrote from others: only the former is ever replaced. Of
files, only regular ones are replaced, never a device, a pipe or a socket.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, TextIO

from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError

MANIFEST = "MANIFEST.json"

# Files by which a folder without a manifest is recognized: a damaged checkpoint of a run may have
# lost its manifest, and a trained vocabulary never has one.
_TRAINERS = {"trainer.json", "trainer.safetensors"}
_VOCABULARY = {"training.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}; make it readable"
        raise DataError(message) from error


def refuse_existing(path: Path | None, overwrite: bool = False, option: str = "--out") -> None:
    """Raise `ConfigError` if `path`, given as `option`, exists and may not be replaced.

    An empty folder may always be replaced, and with `overwrite` also a file or a folder with
    content. A device, a pipe or a socket is never replaced.
    """
    if path is not None and path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigError(
            f"{path} is a device, a pipe or a socket and is never replaced: choose another {option}"
        )
    if path is None or overwrite:
        return
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ConfigError(f"{path} exists already; choose another {option}, or pass --overwrite")


def refuse_folder(path: Path, overwrite: bool = False, option: str = "--out") -> None:
    """Raise `ConfigError` if `path`, given as `option`, may not be replaced by a folder.

    Without `overwrite`, only an empty folder may be replaced. With `overwrite`, this also applies
    to a folder whose whole content is listed in a manifest, a trained vocabulary, or a checkpoint
    of a run. A file is never replaced, nor a folder with other content, nor the current folder or
    one that contains it.
    """
    real = Path(os.path.realpath(path))
    if os.path.lexists(real) and not real.is_dir():
        wrong = "is no folder, and one is to be written"
    elif Path.cwd().is_relative_to(real):
        wrong = "is the folder this command runs in, or holds it"
    else:
        refuse_existing(path, overwrite, option)
        if not (other := _not_ours(real)):
            return
        wrong = f"holds {other}, which no manifest of Bertwright lists; --overwrite replaces only "
        wrong += "what Bertwright wrote"
    raise ConfigError(f"{path} {wrong}: choose another {option}")


def refuse_source(path: Path, source: str | Path, option: str = "--out") -> None:
    """Raise `ConfigError` if replacing `path`, given as `option`, would remove the `source`."""
    if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(path)):
        raise ConfigError(
            f"{source} is what is read, and {path} would take its place: choose another {option}"
        )


def _not_ours(folder: Path) -> str | None:
    """Return a name in a folder that Bertwright is not known to have written, or None."""
    names = set(os.listdir(folder)) if folder.is_dir() else set()
    if folder.name.startswith("step-") and names & _TRAINERS:
        return None
    own = set(_VOCABULARY) if names >= _VOCABULARY else set()
    with contextlib.suppress(IntegrityError):
        files = read_manifest(folder)["files"]
        own |= {MANIFEST, *(PurePath(name).parts[0] for name in files)}
    return min(names - own, default=None)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the error of a full disk, or of a path that cannot be written, into a BertwrightError.

    The message of the error names the path and the reason.
    """
    try:
        yield
    except OSError as error:
        # NumPy reports a full disk only by the number of items that it has written.
        short = error.errno is None and re.search(r"requested and \d+ written", str(error))
        if short or error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BertwrightError(
                f"the disk that holds {path} is full; what was saved before is untouched: free "
                "some space and run the command again, with --resume where it takes that"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG):
            raise BertwrightError(f"{path} cannot be written: {error.strerror}") from error
        raise


def sync_file(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk (`fsync`)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(partial: Path, path: Path) -> None:
    """Move a finished folder to its path, and then remove the folder that was there before.

    Raises the ConfigError of `refuse_folder`.
    """
    refuse_folder(path, overwrite=True)
    path = Path(os.path.realpath(path))
    for place in (*partial.rglob("*"), partial):
        sync_file(place)
    old = path.with_name(f".{path.name}.old-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(old)
    partial.rename(path)
    shutil.rmtree(old, ignore_errors=True)  # errors do not matter: the new folder is in place
    sync_file(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden folder beside `path`, which is moved to `path` if the block succeeds.

    Raises the errors of `refuse_folder` and `disk_errors`.
    """
    refuse_folder(path, overwrite)
    with _partial(Path(os.path.realpath(path))) as partial:
        partial.mkdir()
        yield partial
        replace_folder(partial, path)


@contextlib.contextmanager
def atomic_file(path: Path, overwrite: bool = False) -> Iterator[TextIO]:
    """Yield a text file as `atomic_path` does, opened for writing in UTF-8."""
    how: dict[str, Any] = {"encoding": "utf-8", "newline": "\n"}
    with atomic_path(path, overwrite) as partial, partial.open("w", **how) as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden path beside `path`; its file is moved to `path` if the block succeeds.

    Raises ConfigError if `path` is a folder, and the errors of `refuse_existing` and `disk_errors`.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; --out takes a file")
    refuse_existing(path, overwrite)
    path = Path(os.path.realpath(path))  # a link is kept, and its target is replaced
    with _partial(path) as partial:
        yield partial
        sync_file(partial)
        partial.replace(path)


@contextlib.contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """Create the missing parents of a path. If the block fails, remove those that are empty."""
    missing = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty
            for parent in missing:
                parent.rmdir()
        raise


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Yield the hidden path beside `path` that this process writes; at the end, it is removed."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    with disk_errors(path), parents_made(path), sole_writer(path):
        _remove_abandoned(path)
        try:
            yield partial
        finally:
            _remove(partial)


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep other processes from writing `path` while the block runs.

    This locks a hidden file beside `path`, which is removed at the end. The system releases the
    lock of a killed process, whose file the next writer removes. If the system or the file system
    has no locks, this has no effect. filelock 4.3 is not used for it, because its `FileLock` leaves
    the file after every ending and fails on a file system without locks, its `SoftFileLock` refuses
    `path` for good after a process was killed on a host of another name, as each container has, and
    importing it takes 0.11 s.

    Raises:
        DataError: another process is writing `path`.
    """
    if sys.platform == "win32":
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
    while (is_ours := _lock(descriptor)) and not _is_open(lock, descriptor):
        # the process that held the lock has removed the file in the meantime
        os.close(descriptor)
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        if not is_ours:
            raise DataError(
                f"another process is writing {path}: let it end, or choose another --out"
            )
        yield
    finally:
        if is_ours:
            with contextlib.suppress(OSError):
                os.unlink(lock)  # before the lock is released, so that no other process holds it
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process holds it.

    If the system or the file system has no locks, nothing is locked.
    """
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # no locks on this file system
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def _is_open(path: Path, descriptor: int) -> bool:
    """Return whether a descriptor is of the file that is at a path now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _remove(place: Path) -> None:
    """Remove a file, a link or a folder, if it exists."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that no longer run left beside `path` while they wrote it."""
    # What was at `path` before is the last copy if nothing is at `path` now; then it is kept.
    kinds = "partial|read|old" if path.exists() else "partial|read"
    for place in path.parent.glob(f".{glob.escape(path.name)}.*"):
        found = re.fullmatch(rf"({kinds})-(\d{{1,9}})", place.name.removeprefix(f".{path.name}."))
        own = found and found[1] == "read" and int(found[2]) == os.getpid()  # this process reads it
        if found and not own and not _is_alive(int(found[2])):
            _remove(place)


def _is_alive(pid: int) -> bool:
    """Return whether another process has this id.

    Except on POSIX systems, every id but that of this process counts as taken.
    """
    if pid == os.getpid() or os.name != "posix":
        return pid != os.getpid()
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


@contextlib.contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder while the block runs, to keep other processes from using it.

    `what` names what is done in the folder, as "training into", for the message of the error. The
    system releases the lock when the process ends, also if it is killed. If the system or the file
    system has no locks, this has no effect.

    Raises:
        ConfigError: another process holds the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not _lock(descriptor):
            raise ConfigError(
                f"another process is {what} {folder}: let it end, or choose another --out"
            )
        yield
    finally:
        os.close(descriptor)


def write_manifest(
    folder: Path, extra: Mapping[str, Any] | None = None, without: Sequence[str] = ()
) -> dict[str, Any]:
    """Write `MANIFEST.json` with the files of `folder` and the `extra` keys; return its content.

    Files that are named in `without` are not listed.
    """
    places = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    files = {
        str(each.relative_to(folder)): {"bytes": each.stat().st_size, "sha256": sha256_file(each)}
        for each in places
        if each.name not in (MANIFEST, *without)
    }
    manifest = {**(extra or {}), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the content of `MANIFEST.json`.

    Its "files" map names of files within `folder` to mappings with "bytes" and "sha256".

    Raises:
        IntegrityError: there is no manifest, or it is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise IntegrityError(f"{folder} has no {MANIFEST}: it was not written to the end")
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        for name, entry in manifest["files"].items():
            outside = not name or PurePath(name).is_absolute() or ".." in PurePath(name).parts
            if outside or type(entry["bytes"]) is not int or type(entry["sha256"]) is not str:
                raise ValueError(f"what it lists of {name!r}")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise IntegrityError(f"{path} is damaged ({error!r})") from error
    return manifest


def verify_manifest(folder: Path) -> dict[str, Any]:
    """Check every file of a folder against its manifest (`verify_files`); return the manifest."""
    manifest = read_manifest(folder)
    verify_files(folder, manifest["files"])
    return manifest


def verify_files(folder: Path, files: Mapping[str, Any], deep: bool = True) -> None:
    """Check the files of a folder against the "files" of its manifest.

    Without `deep` only the sizes are checked, which takes almost no time and finds truncated files.

    Raises:
        IntegrityError: a file is missing, truncated or changed.
        DataError: a file cannot be read.
    """
    for name, expected in files.items():
        place, wrong = folder / name, ""
        if not place.is_file():
            wrong = "is missing"
        elif (size := place.stat().st_size) != expected["bytes"]:
            right = expected["bytes"]
            wrong = f"has {size} bytes where {right} were written: it was truncated or changed"
        elif deep and sha256_file(place) != expected["sha256"]:
            wrong = "was changed after it was written (its SHA-256 differs)"
        if wrong:
            raise IntegrityError(f"{place} {wrong}; copy it again or write the folder again")
