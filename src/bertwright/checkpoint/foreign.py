"""Files of other programs that `bertwright convert` turns into folders: one row a kind of file.

A row says how a path is recognized, and what the files hold. They are parsed by the model that they
are of (`models/word_vectors/files.py`, `models/word_vectors/fasttext_file.py`,
`models/ngram/arpa.py`, `models/elmo/published.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from bertwright.checkpoint import checkpoint, elmo_folder
from bertwright.checkpoint.vector_files import unknown_of
from bertwright.errors import BertwrightError
from bertwright.models.ngram import arpa
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.files import is_vector_file, read_vectors
from bertwright.storage.model_folder import CONFIG
from bertwright.text.tokenizer.tokenizer import load_tokenizer


@dataclass(frozen=True)
class Contents:
    """What files of another program hold."""

    sizes: dict[str, Any]
    """Names of sizes -> their values."""
    parameters: int = 0
    notes: tuple[str, ...] = ()
    """What a user may want to know before using them."""


@dataclass(frozen=True)
class ForeignKind:
    """One kind of files of another program."""

    format: str
    """As `bertwright inspect` calls it."""
    is_one: Callable[[Path], bool]
    """Whether a path is of this kind."""
    contents: Callable[[Path], Contents]
    """Reads what the files hold; raises what `bertwright convert` would."""
    architecture: str | None = None
    """The name of the model, where the files are of one alone."""
    used_as_is: bool = field(default=False, kw_only=True)
    """Whether a verb reads the files without a conversion (`bertwright words`)."""


def foreign_kind(path: Path) -> ForeignKind | None:
    """Return the kind of the files at a path; None for any other path."""
    return next((kind for kind in KINDS if kind.is_one(path)), None)


def _vectors(path: Path) -> Contents:
    words, vectors, notes = read_vectors(path)
    sizes = {"words": len(words), "width": vectors.shape[1], **_row_of_unknown(words)}
    return Contents(sizes, vectors.size, notes)


def _fasttext(path: Path) -> Contents:
    model = fasttext_file.read(path)
    sizes = asdict(model.config) | _row_of_unknown(model.words)
    return Contents(sizes, model.rows.size + model.output.size, fasttext_file.notes_of(model))


def _row_of_unknown(words: list[str]) -> dict[str, str]:
    """Return which row is that of unknown words."""
    return {"unknown words": unknown_of(words) or "no row of their own: the mean of all"}


def _ngrams(path: Path) -> Contents:
    words, tables, notes = arpa.read(path)
    sizes = {"words": len(words), "order": len(tables)}
    sizes |= {f"{k}-grams": len(table.keys) for k, table in enumerate(tables, 1)}
    return Contents(sizes, notes=notes)


def _is_elmo(path: Path) -> bool:
    """Return whether a folder holds ELMo's published files, and is not converted yet."""
    return path.is_dir() and elmo_folder.is_published(path) and not (path / CONFIG).is_file()


def _elmo(path: Path) -> Contents:
    notes: tuple[str, ...] = ()
    tokens = 1
    if any((path / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        try:
            tokens = load_tokenizer(path).vocab_size
        except BertwrightError:  # `inspect` says why it cannot be used
            tokens = 1
    else:
        notes = ("no tokenizer: copy one of words into the folder before it is converted",)
    config, _ = elmo_folder.check(path, tokens)
    with torch.device("meta"):
        encoder = checkpoint.make_learner(config, []).encoder
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    return Contents(asdict(config), parameters, notes)


KINDS: tuple[ForeignKind, ...] = (
    ForeignKind("fasttext", fasttext_file.is_fasttext, _fasttext, used_as_is=True),
    ForeignKind("word vectors", is_vector_file, _vectors, used_as_is=True),
    ForeignKind("arpa", arpa.is_arpa, _ngrams),
    ForeignKind("elmo", _is_elmo, _elmo, "Elmo"),
)
"""In the order in which they are tried: a `.bin` of fastText is a file of vectors by its name. They
are compared here alone; `bertwright convert` and `inspect` go by `format`."""
