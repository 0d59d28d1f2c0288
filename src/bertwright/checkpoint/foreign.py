"""The kinds of files of other programs that `bertwright convert` turns into folders.

Each entry of `KINDS` recognizes the paths of its kind and describes their contents. The files are
parsed in the folder of their model (`models/word_vectors/files.py`,
`models/word_vectors/fasttext_file.py`, `models/ngram/arpa.py`, `models/elmo/published.py`).
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
    """The contents of files of another program."""

    sizes: dict[str, Any]
    """The name of each size -> its value."""
    parameters: int = 0
    notes: tuple[str, ...] = ()
    """Notes that a user may want to read before using the files."""


@dataclass(frozen=True)
class ForeignKind:
    """A kind of files of another program."""

    format: str
    """The name of the kind in the output of `bertwright inspect`."""
    is_one: Callable[[Path], bool]
    """Returns whether a path is of this kind."""
    contents: Callable[[Path], Contents]
    """Reads the contents of the files; raises the same errors as `bertwright convert`."""
    architecture: str | None = None
    """The name of the model, if all files of this kind hold the same model."""
    used_as_is: bool = field(default=False, kw_only=True)
    """Whether a command (`bertwright words`) reads the files without a conversion."""


def foreign_kind(path: Path) -> ForeignKind | None:
    """Return the kind of the files at a path; None if they are of no such kind."""
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
    """Return which row holds the vector of unknown words, for the sizes of a file."""
    return {"unknown words": unknown_of(words) or "no row of their own: the mean of all"}


def _ngrams(path: Path) -> Contents:
    words, tables, notes = arpa.read(path)
    sizes = {"words": len(words), "order": len(tables)}
    sizes |= {f"{k}-grams": len(table.keys) for k, table in enumerate(tables, 1)}
    return Contents(sizes, notes=notes)


def _is_elmo(path: Path) -> bool:
    """Return whether a folder holds ELMo's published files and no `config.json` of a converted
    model."""
    return path.is_dir() and elmo_folder.is_published(path) and not (path / CONFIG).is_file()


def _elmo(path: Path) -> Contents:
    notes: tuple[str, ...] = ()
    tokens = 1
    if any((path / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        try:
            tokens = load_tokenizer(path).vocab_size
        except BertwrightError:  # `inspect` reports why the tokenizer cannot be used
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
"""The kinds in the order in which they are tried. fastText comes first, because the name of its
`.bin` is also that of a file of word vectors. Paths are recognized only here; `bertwright convert`
and `inspect` use the `format`."""
