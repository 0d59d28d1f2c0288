"""Find the files of a corpus: files, folders, globs, standard input and `hf:NAME`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from bertwright.errors import ConfigError, DataError
from bertwright.rows.compressed import COMPRESSED_SUFFIXES
from bertwright.rows.lines import EXTRACT
from bertwright.rows.open import nearest_name

TEXT_SUFFIXES = (".txt", ".text")
ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
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
