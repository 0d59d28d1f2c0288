"""Folders and files that appear whole or not at all, and manifests that prove it.

A folder is written under a hidden name beside its path, flushed, and moved there by one rename,
so a killed process or a full disk leaves what was there before; what a killed process left under
such a name is removed by the next that writes there. While a process writes a path, no other one
may: the second ends with an error. A `MANIFEST.json`, written last, holds the size and SHA-256 of
every file. It also tells a folder of ours from a user's: only the former is ever replaced, and of
files only regular ones, never a device, a pipe or a socket.
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
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, TextIO

from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError

MANIFEST = "MANIFEST.json"

# A damaged checkpoint of a run may have lost its manifest, a trained vocabulary never had one.
_TRAINERS = {"trainer.json", "trainer.safetensors"}
_VOCABULARY = {"training.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex; DataError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}; make it readable"
        raise DataError(message) from error


def refuse_existing(path: Path | None, overwrite: bool = False, option: str = "--out") -> None:
    """Raise `ConfigError` if `path`, given as `option`, holds something and may not be replaced.

    With `overwrite` files and folders may be; a device, a pipe or a socket never is.
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
    """Raise `ConfigError` if no folder may replace `path`, given as `option`.

    With `overwrite` it may be that of one that a manifest lists whole, of a trained vocabulary or
    of a checkpoint of a run; never that of a file, or of one with something else in it.
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
    """Raise `ConfigError` if to replace `path`, given as `option`, would remove what is read."""
    if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(path)):
        raise ConfigError(
            f"{source} is what is read, and {path} would take its place: choose another {option}"
        )


def _not_ours(folder: Path) -> str | None:
    """The name of something in a folder that Bertwright is not known to have written."""
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
    """Turn a full disk or a forbidden folder into a BertwrightError that says so."""
    try:
        yield
    except OSError as error:
        # NumPy says of a full disk only how many numbers it wrote.
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
    """Ask the system to put a file, or a folder's entries, on the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(partial: Path, path: Path) -> None:
    """Move a finished folder to its path; one that was there goes once the new one is there.

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
    shutil.rmtree(old, ignore_errors=True)  # no reason to fail: the new one stands
    sync_file(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden sibling of `path` to write in; it takes its name when the block ends well.

    Raises the errors of `refuse_folder` and `disk_errors`.
    """
    refuse_folder(path, overwrite)
    with _partial(Path(os.path.realpath(path))) as partial:
        partial.mkdir()
        yield partial
        replace_folder(partial, path)


@contextlib.contextmanager
def atomic_file(path: Path, overwrite: bool = False) -> Iterator[TextIO]:
    """`atomic_path`, opened for text."""
    how: dict[str, Any] = {"encoding": "utf-8", "newline": "\n"}
    with atomic_path(path, overwrite) as partial, partial.open("w", **how) as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden sibling of `path` to be written; it takes its name when the block ends well.

    Raises ConfigError where it is a folder, and the errors of `refuse_existing` and `disk_errors`.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; --out takes a file")
    refuse_existing(path, overwrite)
    path = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
    with _partial(path) as partial:
        yield partial
        sync_file(partial)
        partial.replace(path)


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """The hidden sibling of `path` that this process writes; nothing is left of it at the end."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with sole_writer(path):
            _remove_abandoned(path)
            try:
                yield partial
            finally:
                _remove(partial)


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep other processes from writing `path` while the block runs; a kill ends that, too.

    The lock is on a hidden file beside `path`, which is removed at the end. Without effect where
    the system or its file system has no locks.

    Raises:
        DataError: another process is writing it.
    """
    lock = path.with_name(f".{path.name}.lock")
    descriptor = _locked(lock, path)
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(lock)  # before the lock goes: nobody else may hold it yet
            os.close(descriptor)


def _locked(lock: Path, path: Path) -> int | None:
    """The descriptor that holds a lock file; None: there are no locks here."""
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before may have removed it in the meantime.
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
            os.close(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            raise DataError(
                f"another process is writing {path}: let it end, or choose another --out"
            ) from error
        except OSError:  # no locks on this file system
            os.close(descriptor)
            lock.unlink(missing_ok=True)
            return None


def _remove(place: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that are gone left while they wrote `path`."""
    # What stood at `path` before is removed only where `path` stands: else it is the last copy.
    kinds = "partial|read|old" if path.exists() else "partial|read"
    for place in path.parent.glob(f".{glob.escape(path.name)}.*"):
        found = re.fullmatch(rf"({kinds})-(\d{{1,9}})", place.name.removeprefix(f".{path.name}."))
        own = found and found[1] == "read" and int(found[2]) == os.getpid()  # it is being read
        if found and not own and not _is_alive(int(found[2])):
            _remove(place)


def _is_alive(pid: int) -> bool:
    """Whether another process has this number; always true where the system does not say."""
    if pid == os.getpid() or os.name != "posix":
        return pid != os.getpid()
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


@contextlib.contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Keep other processes out of a folder, where `what` is done ("training into"): ConfigError if
    one holds it. The system lets go when this one ends, however it does.

    Without effect where the system or its file system has no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    f"another process is {what} {folder}: let it end, or choose another --out"
                ) from error
        yield
    finally:
        os.close(descriptor)


def write_manifest(folder: Path, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write `MANIFEST.json` over all files of `folder`; return it."""
    places = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    files = {
        str(each.relative_to(folder)): {"bytes": each.stat().st_size, "sha256": sha256_file(each)}
        for each in places
        if each.name != MANIFEST
    }
    manifest = {**(extra or {}), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """`MANIFEST.json`, its "files" a mapping of names within `folder` to "bytes" and "sha256".

    Raises:
        IntegrityError: no manifest, or one of another form.
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
    """`read_manifest`, with every file checked against it (`verify_files`)."""
    manifest = read_manifest(folder)
    verify_files(folder, manifest["files"])
    return manifest


def verify_files(folder: Path, files: Mapping[str, Any], deep: bool = True) -> None:
    """Raise IntegrityError where a file of a manifest's "files" is missing, truncated or changed,
    DataError where one cannot be read.

    Without `deep` sizes alone are checked, which finds a truncated file and costs nothing.
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
