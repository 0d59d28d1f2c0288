"""Files of word vectors, which `models/word_vectors/files.py` parses.

The tokenizer of a model that is read from such a file splits texts into the words of the file
(`text/tokenizer/file_words.py`). A word that is not in the file gets the vector of the file's row
of unknown words (`<unk>`, `UNK`), or the mean of all vectors if the file has no such row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Int64s
from bertwright.checkpoint.formats.format import Contents, FileFormat, Imported
from bertwright.errors import ConfigError
from bertwright.models.load import system_of_config
from bertwright.models.word_vectors.config import WordVectorsConfig
from bertwright.models.word_vectors.files import (
    SUFFIXES,
    NamedVectors,
    is_vector_file,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.nn.objective import Learner
from bertwright.storage.pickled import is_pickle
from bertwright.text.tokenizer.file_words import UNKNOWN_NAMES
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_file_tokenizer

ADDED = "[UNK]"
"""The name of the row of unknown words that is added to a file without one."""


class Word2Vec(FileFormat):
    """Files of word vectors, as text or binary."""

    name, described_as = "word2vec", "word vectors"
    used_as_is = True
    suffixes = SUFFIXES

    def recognize(self, path: Path) -> bool:
        return is_vector_file(path) and not is_pickle(path)

    def describe(self, path: Path) -> Contents:
        words, vectors, notes = read_vectors(path)
        sizes = {"words": len(words), "width": vectors.shape[1], **row_of_unknown(words)}
        return Contents(sizes, vectors.size, notes)

    def read(self, path: Path) -> Imported:
        words, vectors, notes = read_vectors(path)
        unknown = unknown_of(words)
        if unknown is None:
            words = [*words, ADDED]
            vectors = np.concatenate([vectors, vectors.mean(0, keepdims=True)])
        config = WordVectorsConfig(*vectors.shape)
        with torch.device("meta"):
            learner = system_of_config(config).make_learner(config, ())
        learner.load_state_dict({"encoder.table.weight": torch.from_numpy(vectors)}, assign=True)
        sizes = dict(zip(("words", "width"), vectors.shape, strict=True))
        notes = (*notes, note_of_unknown("a word", unknown))
        return Imported(learner, tokenizer_of(words, unknown), sizes, notes)

    def check(self, config: Any, source: Path) -> None:
        if system_of_config(config).spec(config).depth:
            raise ConfigError(f"{source} has layers; a file of vectors holds one vector a word")

    def write(
        self, learner: Learner, tokenizer: Tokenizer, out: Path, suffix: str = ""
    ) -> dict[str, Any]:
        """Write the vectors of a static model: `.bin` binary, any other suffix as text."""
        rows = rows_of_words(learner, tokenizer)
        table: Any = learner.encoder.token_embedding()
        vectors = table.weight.detach().numpy()[rows]
        write = write_binary if suffix == ".bin" else write_text
        write(out, NamedVectors(tokenizer.tokens_of(rows.tolist()), vectors))
        return {"words": vectors.shape[0], "width": vectors.shape[1]}


def unknown_of(words: Sequence[str]) -> str | None:
    """Return the name of a file's row of unknown words; None if it has none."""
    there = set(words)
    return next((name for name in UNKNOWN_NAMES if name in there), None)


def row_of_unknown(words: Sequence[str]) -> dict[str, str]:
    """Return which row holds the vector of unknown words, for the sizes of a file."""
    return {"unknown words": unknown_of(words) or "no row of their own: the mean of all"}


def note_of_unknown(what: str, unknown: str | None) -> str:
    """Return the note that says which vector unknown words have."""
    if unknown is not None:
        return f"{what} that is not in the file has the vector of its row {unknown!r}"
    return (
        f"{what} that is not in the file has the mean of all vectors: the file has no row for "
        "unknown words"
    )


def tokenizer_of(words: Sequence[str], unknown: str | None) -> Tokenizer:
    """Return the tokenizer of the words of a file; without a row of unknown words in the file, the
    last of them is the added row."""
    added = None if unknown is not None else "mean"
    return make_file_tokenizer(list(words), "vectors", {"unk_token": unknown or ADDED}, added)


def rows_of_words(learner: Learner, tokenizer: Tokenizer) -> Int64s:
    """Return the rows of a table that are written to a file: all but those of special tokens that
    no file of vectors had."""
    added = sorted(tokenizer.special_ids - tokenizer.words_of_file)
    rows: Int64s = np.setdiff1d(np.arange(learner.encoder.spec.vocab_size), added)
    return rows
