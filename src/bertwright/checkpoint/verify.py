"""Check the files of a folder before anything in it is read: links, and the manifest."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bertwright.atomic import MANIFEST, read_manifest, verify_files
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.task_heads import HEADS, TASKS
from bertwright.errors import IntegrityError
from bertwright.storage.model_folder import BERT_CONFIG, CONFIG, TOKENIZER_FILES, WEIGHTS
from bertwright.storage.tensor_names import quote

_READ = (CONFIG, WEIGHTS, TASKS, HEADS, BERT_CONFIG, *TOKENIZER_FILES)


def verify_folder(
    folder: Path, more: Collection[str] = (), verified: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Check a folder before anything in it is read, and return the SHA-256 of each file that was
    compared with its manifest, by name.

    No link may lead out of the folder (see `check_links`). The files of the model and of the
    tokenizer, those of a folder of sentence-transformers, and the files named in `more` must match
    the manifest, if there is one.

    Args:
        verified: the files of the manifest, if all of them were already compared with it. Only
            files that it does not list are then looked for.
    """
    check_links(folder, parts=False)
    digests = _verify_by_manifest(folder, more, verified)
    check_links(folder)  # `modules.json`, which lists the parts, is whole
    return digests


def _verify_by_manifest(
    folder: Path, more: Collection[str], verified: Mapping[str, Any] | None
) -> dict[str, str]:
    if not (folder / MANIFEST).is_file():
        return {}
    files = read_manifest(folder)["files"] if verified is None else verified
    digests = _verify_read(
        folder, files, [*_READ, *sentence_transformers.SETTINGS, *more], verified is None
    )
    if sentence_transformers.is_one(folder):  # `modules.json`, which lists the parts, is whole
        parts = sentence_transformers.files_of(folder)
        digests |= _verify_read(folder, files, parts, verified is None)
    return digests


def _verify_read(
    folder: Path, files: Mapping[str, Any], read: Collection[str], compare: bool
) -> dict[str, str]:
    listed = {name: files[name] for name in read if name in files}
    if compare:
        verify_files(folder, listed)
    if added := [name for name in read if (folder / name).is_file() and name not in files]:
        raise IntegrityError(
            f"{folder} has {quote(added)}, which its {MANIFEST} does not list: written later, or "
            "by another program; remove it, or remove the manifest if you trust the files"
        )
    return {name: entry["sha256"] for name, entry in listed.items()}


def check_links(folder: Path, parts: bool = True) -> None:
    """Raise IntegrityError if a link leads out of a folder, so that only files of the folder itself
    are read and copied.

    In a cache of the Hugging Face hub, `models--X/snapshots/R/FILE` is a link to
    `models--X/blobs`, which is allowed. With `parts`, the parts of a folder of
    sentence-transformers are checked, too; `modules.json` is read for that.
    """
    folders = sentence_transformers.folders_of(folder) if parts else [folder]
    real = folders[0].resolve()
    inside = [real]
    if real.parent.name == "snapshots":
        inside.append(real.parent.parent / "blobs")
    for path in (path for each in folders for path in each.iterdir()):
        if path.is_symlink():
            target = Path(os.path.realpath(path))
            if target.is_symlink():
                raise IntegrityError(f"{path} is a link to itself; remove it")
            if not any(target.is_relative_to(each) for each in inside):
                raise IntegrityError(
                    f"{path} is a link out of its folder, to {target}; copy what it leads to "
                    "into the folder, if you trust it"
                )
