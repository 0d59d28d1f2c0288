"""The folder of a served model: the digest of its weights, the examples of its card, its state."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bertwright.checkpoint.checkpoint import CARD, plan
from bertwright.checkpoint.find import look_up_place
from bertwright.checkpoint.opened import Opened
from bertwright.checkpoint.sentence_transformers.dense import DenseLayer
from bertwright.checkpoint.sentence_transformers.folder import folders_of
from bertwright.checkpoint.task_heads import HEADS
from bertwright.config.hub import PREFIX
from bertwright.errors import DataError
from bertwright.storage.model_folder import WEIGHTS


def examples_of(folder: Path) -> list[str]:
    """Return the texts of `widget` in the card of a model, as the hub shows them:
    https://huggingface.co/docs/hub/models-widgets."""
    head = ""
    with suppress(OSError), (folder / CARD).open(encoding="utf-8", errors="replace") as file:
        head = file.read(1 << 14)
    front = re.match(r"---\n(.*?)\n---", head, re.DOTALL)
    widget = re.search(r"^widget:\n((?:[- ].*\n?)*)", front[1] if front else "", re.MULTILINE)
    found = re.findall(r"^[- ]+text: (.+)", widget[1] if widget else "", re.MULTILINE)
    return [_unquoted(text)[:1000] for text in found[:8]]


def _unquoted(text: str) -> str:
    """Return a YAML string without its quotes; escapes in double quotes are those of JSON."""
    with suppress(ValueError):
        return str(json.loads(text)) if text.startswith('"') else text.strip("'")
    return text


@contextmanager
def readable(folder: str) -> Iterator[None]:
    """Turn a permission error into one that says which folder the user may not read."""
    try:
        yield
    except PermissionError as error:
        raise DataError(
            f"{error.filename or folder} cannot be read: {error.strerror}; let the server's user, "
            f"number {os.geteuid()}, read the folder {folder} and all that is in it"
        ) from error


def check_folder(folder: str) -> None:
    """Check that the tensors of a model fit its configuration, before the server starts. An id of
    the hub is not checked, as it may have to be fetched first.

    Raises:
        BertwrightError: it cannot be served.
    """
    if not folder.startswith(PREFIX):
        with readable(folder):
            opened = Opened(look_up_place(folder))
            plan(opened)
            _ = opened.tokenizer


def weights_digest(opened: Opened, dense: Sequence[DenseLayer] = ()) -> str:
    """Return the SHA-256 of the weights of a model: of its one file, or of the names and digests of
    several files."""
    files = _weights(opened, dense)
    if len(files) == 1:
        return opened.sha256(files[0])
    names = [path.relative_to(opened.folder).as_posix() for path in files]
    lines = [f"{opened.sha256(path)}  {name}\n" for path, name in zip(files, names, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _weights(opened: Opened, dense: Sequence[DenseLayer] = ()) -> list[Path]:
    """Return the files of the weights of a model: of the encoder, heads and dense layers."""
    heads = opened.folder / HEADS
    more = [heads] if heads.is_file() else []
    files = sorted([*opened.weight_files, *more])
    return files + [x.dense.folder / WEIGHTS for x in dense]


def stamps(opened: Opened) -> set[tuple[Path, int, int, int]]:
    """Return values that change if a file that a model is read from is written or replaced."""
    beside = [path for folder in folders_of(opened.folder) for path in folder.iterdir()]
    read = [path for path in beside if path.suffix in (".json", ".txt", ".safetensors")]
    files = {path: path.stat() for path in {*_weights(opened), *read}}
    return {(path, x.st_ino, x.st_size, x.st_mtime_ns) for path, x in files.items()}
