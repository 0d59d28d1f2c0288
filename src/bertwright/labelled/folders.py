"""Read a folder of texts, with a folder for each class and a `.txt` file for each text.

IMDb's folder `train` has two kinds of texts that have no class: those of the folder `unsup`, and
lists of web addresses, `urls_pos.txt`. They are left out.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from bertwright.errors import DataError
from bertwright.rows.lines import ByteCounts, read_text
from bertwright.rows.open import open_bytes, suffix_of
from bertwright.rows.parts import part_of
from bertwright.rows.read import MemoryRows
from bertwright.text.corpus.find import TEXT_SUFFIXES

_UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")


def texts_of_folder(folder: Path, *, label: bool) -> MemoryRows | None:
    """Return the texts of a folder's `.txt` files, or None if it has none.

    With `label`, the label of `FOLDER/pos/7.txt` is `pos`.
    """
    rows: list[dict[str, Any]] = []
    counts = ByteCounts()
    left_out = Counter[str]()
    paths = texts_in(folder)
    if label:
        _refuse_parts(folder, paths)
    for path in paths:
        parts = path.relative_to(folder).parts
        if label and len(parts) == 1 and path.name.startswith("urls_"):
            continue
        if label and len(parts) == 1:
            raise DataError(
                f"{path} is not in the folder of a class; expected {folder}/CLASS/FILE.txt"
            )
        if label and parts[0].lower() in _UNLABELLED:
            left_out[parts[0]] += 1
            continue
        with open_bytes(path) as stream:
            text = "".join(read_text(stream, str(path), counts)).strip()
        row = {"text": text, "id": "/".join(parts)}
        rows.append(row | ({"label": parts[0]} if label else {}))
    if not rows:
        return None
    warnings = [
        f"{count:,} left out, in the folder {name!r} of texts without a class"
        for name, count in left_out.items()
    ]
    return MemoryRows(str(folder), rows, counts, tuple(warnings))


def _refuse_parts(folder: Path, paths: list[Path]) -> None:
    """Raise DataError for folders `train` and `test` that have the folders of classes in them."""
    parts = [path.relative_to(folder).parts for path in paths]
    names = sorted({each[0] for each in parts if len(each) > 1})
    deep = all(len(each) > 2 for each in parts if len(each) > 1)
    if len(names) > 1 and deep and all(map(part_of, names)):
        train = next((name for name in names if part_of(name) == "train"), names[0])
        other = next(name for name in names if name != train)
        raise DataError(
            f"the folders of {folder} are no classes but parts of the data set: "
            f"{', '.join(names)}. Pass each by itself: --train {folder / train} "
            f"--dev {folder / other}"
        )


def texts_in(folder: Path) -> list[Path]:
    """Return the text files of a folder, without hidden files and those in hidden folders."""
    paths = [path for path in folder.rglob("*") if suffix_of(path) in TEXT_SUFFIXES]
    return sorted(path for path in paths if "/." not in f"/{path.relative_to(folder).as_posix()}")


def refuse_missing(path: str) -> None:
    """Raise DataError early if a file does not exist. An existing file is not opened, because
    reading from a pipe would lose its content; `-` (standard input) is not checked.
    """
    exists = texts_in(Path(path)) if Path(path).is_dir() else Path(path).exists()
    if path != "-" and not exists:
        open_bytes(Path(path)).close()
