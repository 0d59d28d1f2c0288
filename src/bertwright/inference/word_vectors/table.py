"""A vector for each word of a vocabulary, from any model or file that gives one.

Of static vectors it is the word's row; of any other model the mean of the vectors that a layer has
for the word's tokens when the word is a text of its own. Letters: V words, H width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.checkpoint import checkpoint, sources
from bertwright.checkpoint.word_vectors import fasttext
from bertwright.checkpoint.word_vectors.files import is_vector_file, read_vectors
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference.model import Model, load
from bertwright.inference.vectors.embed import normalized
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.models.word_vectors.encoder import mean_rows
from bertwright.models.word_vectors.subwords import buckets_of, word_units
from bertwright.storage.model_folder import CONFIG, WEIGHTS, read_json
from bertwright.text.tokenizer.file_words import FILE_WORDS, UNKNOWN_ROW, spellings
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, read_vocab

STATIC = ("word2vec", "glove", "word-vectors", "fasttext")
"""Models that are a table of words, of which nothing else need be loaded."""
_AT_ONCE = 256


@dataclass
class WordTable:
    """Words, frequent ones first where the vocabulary is so, and their vectors."""

    words: Sequence[str]
    vectors: Float32s
    """`[V, H]`; of our own folders a map of the file."""
    unseen: Callable[[str], Float32s | None] = field(default=lambda word: None)
    """The vector `[H]` of a word that is not in the table, if the model makes one."""
    notes: tuple[str, ...] = ()
    """What was left out or replaced while reading, for people."""

    @cached_property
    def row(self) -> dict[str, int]:
        """Word -> its row."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def unit(self) -> Float32s:
        """`[V, H]` vectors of length 1; a zero vector stays zero."""
        return normalized(self.vectors)

    def spelling(self, word: str) -> str | None:
        """The word as the table has it, in another case where it has no other."""
        return next((each for each in spellings(word) if each in self.row), None)

    def vector(self, word: str) -> Float32s | None:
        """`[H]` of length 1; None where there is none."""
        known = self.spelling(word)
        found = self.unseen(word) if known is None else self.vectors[self.row[known]]
        return None if found is None else normalized(found[None])[0]

    def require(self, word: str) -> Float32s:
        """`vector`, or DataError."""
        if (found := self.vector(word)) is not None:
            return found
        raise DataError(
            f"{word!r} is none of the {len(self.words):,} words of the vocabulary; fastText makes "
            "vectors for such words"
        )

    def nearest(
        self, vector: Float32s, top: int, without: Sequence[str] = ()
    ) -> list[tuple[str, float]]:
        """The `top` words with the largest cosine to a vector `[H]`, and it."""
        cosines = self.unit @ normalized(vector[None])[0]
        left_out = [self.row[word] for word in without if word in self.row]
        cosines[left_out] = -np.inf
        top = min(top, len(cosines) - len(left_out))
        found = np.argpartition(-cosines, max(0, top - 1))[:top]
        found = found[np.argsort(-cosines[found])]
        return [(self.words[row], float(cosines[row])) for row in found.tolist()]


def open_words(path: str | Path, layer: int | None = None) -> WordTable:
    """The vectors of a file, or of a model's vocabulary: those of a layer, if it has any; unset: 0,
    its token embeddings.

    Raises:
        ConfigError: no such layer.
        DataError, IntegrityError: as `load` and `read_vectors`.
    """
    path = Path(path)
    if is_vector_file(path):
        table = _of_fasttext(path) if fasttext.is_fasttext(path) else _of_file(path)
    else:
        folder = checkpoint.find_checkpoint(path)
        if _model_type(folder) not in STATIC:
            return of_model(load(path), layer or 0)
        table = _mapped(folder)
    if layer:
        raise ConfigError(f"--layer is {layer}, but {path} has one vector a word: leave it out")
    return table


def _model_type(folder: Path) -> Any:
    """The `model_type` of a folder; IntegrityError where `config.json` is damaged, DataError where
    it never was one."""
    if not (folder / CONFIG).is_file():
        return None
    try:
        return read_json(folder / CONFIG).get("model_type")
    except DataError:
        checkpoint.verify_folder(folder)
        raise


def _of_file(path: Path) -> WordTable:
    words, vectors, notes = read_vectors(path)
    return WordTable(words, vectors, notes=notes)


def _of_fasttext(path: Path) -> WordTable:
    """The words of a `.bin` of fastText, and vectors of the n-grams of others."""
    model = fasttext.read(path)
    config, words = model.config, model.words
    units = word_units(words, (), config.buckets, config.min_n, config.max_n)
    vectors = mean_rows(torch.from_numpy(model.rows), *units).numpy()
    unseen = _by_ngrams(config, model.rows[len(words) :], cased=True)
    return WordTable(words, vectors, unseen, fasttext.notes_of(model))


def _by_ngrams(
    config: FastTextConfig, rows: Float32s, cased: bool
) -> Callable[[str], Float32s | None]:
    """The vector of a word as the mean of its n-grams' rows."""

    def unseen(word: str) -> Float32s | None:
        own = word if cased else word.lower()
        found = buckets_of(own, config.buckets, config.min_n, config.max_n)
        return rows[found].mean(0) if found else None

    return unseen


def of_model(model: Model, layer: int) -> WordTable:
    """The words of a model's vocabulary that begin a word, as `layer` has them."""
    model.spec.require_vectors()
    tokenizer = model.tokenizer
    ids = sorted(set(tokenizer.vocab.values()) - tokenizer.special_ids)
    starting = [id for id in ids if not tokenizer.is_continuation[id]]
    words = [word for word in tokenizer.tokens_of(starting) if word]
    embedder = model.embedder(VectorConfig((layer,), pooling="none", normalize=False))

    def vectors_of(words: Sequence[str]) -> Float32s:
        inside = tokenizer.framing.inside
        special = tokenizer.framing.special_tokens()
        made = [each.vectors for each in embedder.embed_tokens(words)]
        return np.stack([rows[inside(len(rows) - special)[0]].mean(0) for rows in made])

    def unseen(word: str) -> Float32s | None:
        if tokenizer.unk_id in tokenizer.encode_bare_ids([word])[0]:
            return None
        found: Float32s = vectors_of([word])[0]
        return found

    parts = [vectors_of(words[n : n + _AT_ONCE]) for n in range(0, len(words), _AT_ONCE)]
    return WordTable(words, np.concatenate(parts), unseen)


def _mapped(folder: Path) -> WordTable:
    """A table of ours, verified as `load` does; the rows that are read come into memory, and no
    others. fastText makes vectors of the character n-grams of other words."""
    checkpoint.verify_folder(folder)
    config = sources.read_config(folder)
    checkpoint.plan(folder, config)  # the names, shapes and types of the tensors
    if not (folder / "vocab.txt").is_file():
        raise IntegrityError(f"{folder} has no vocab.txt, which its model was saved with")
    words = list(read_vocab(folder / "vocab.txt"))
    if len(words) != config.vocab_size:
        raise IntegrityError(
            f"{folder / 'vocab.txt'} has {len(words):,} words, and its model has "
            f"{config.vocab_size:,}: they do not belong together"
        )
    path = folder / "tokenizer_config.json"
    rules = read_json(path) if path.is_file() else {}
    names = {*SPECIAL_TOKENS.values()}
    if FILE_WORDS in rules:  # its own row of unknown words is one of the file's words
        names = {str(rules.get("unk_token"))} if rules.get(UNKNOWN_ROW) == "mean" else set()
    kept = [row for row, word in enumerate(words) if word not in names]
    rows: Any = kept
    if kept and kept[-1] - kept[0] + 1 == len(kept):
        rows = slice(kept[0], kept[-1] + 1)  # which copies nothing
    words = [words[row] for row in kept]
    table = WordTable(words, _tensor(folder, "encoder.table.weight")[rows])
    if not isinstance(config, FastTextConfig):
        return table
    cased = any(word != word.lower() for word in words)
    of_units = _tensor(folder, "encoder.rows")[config.vocab_size :]
    return replace(table, unseen=_by_ngrams(config, of_units, cased))


def _tensor(folder: Path, name: str) -> Float32s:
    """A map of one tensor of the weights."""
    with (folder / WEIGHTS).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[name]
    start, shape = 8 + size + entry["data_offsets"][0], tuple(entry["shape"])
    found: Float32s = np.memmap(folder / WEIGHTS, np.dtype("<f4"), "r", start, shape)
    return found
