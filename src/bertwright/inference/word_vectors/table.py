"""Open the words of any model or file of vectors as a table with a vector for each word.

For static vectors, a word's vector is its row. For any other model, it is the mean of a layer's
vectors of the word's tokens, where the word is a text by itself. Letters: V words, H width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, IntegrityError
from bertwright.inference.model import Model, load
from bertwright.inference.vectors.words import WordTable, no_vector
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.models.word_vectors.encoder import mean_rows
from bertwright.models.word_vectors.files import is_vector_file, read_vectors
from bertwright.models.word_vectors.subwords import buckets_of, word_units
from bertwright.storage.model_folder import WEIGHTS, read_json
from bertwright.text.tokenizer.file_words import FILE_WORDS, UNKNOWN_ROW, spellings
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, read_vocab

STATIC = ("word2vec", "glove", "word-vectors", "fasttext")
"""Models that are a table of words, from which only the table needs to be loaded."""
_AT_ONCE = 256


def open_words(path: str | Path, layer: int | None = None, needed: Sequence[str] = ()) -> WordTable:
    """Return the vectors of a file, or of a model's vocabulary at a layer.

    Args:
        path: a file of vectors, or the folder of a model.
        layer: the layer; None: 0, the token embeddings.
        needed: the words that will be looked up. A model computes the vectors of its whole
            vocabulary, so that an unknown word is refused before.

    Raises:
        ConfigError: there is no such layer.
        DataError, IntegrityError: as `load` and `read_vectors`; or a model has no vector of a
            needed word.
    """
    path = Path(path)
    if is_vector_file(path):
        table = _of_fasttext(path) if fasttext_file.is_fasttext(path) else _of_file(path)
    else:
        opened = open_model(path)
        _ = opened.verified
        is_there = opened.config_file.is_file()
        if not is_there or opened.content.get("model_type") not in STATIC:
            return of_model(load(opened), layer or 0, needed)
        table = _mapped(opened)
    if layer:
        raise ConfigError(f"--layer is {layer}, but {path} has one vector per word: leave it out")
    return table


def _of_file(path: Path) -> WordTable:
    words, vectors, notes = read_vectors(path)
    return WordTable(words, vectors, notes=notes)


def _of_fasttext(path: Path) -> WordTable:
    """Return the words of a `.bin` of fastText, which computes vectors of other words from their
    n-grams.
    """
    model = fasttext_file.read(path)
    config, words = model.config, model.words
    units = word_units(words, (), config.buckets, config.min_n, config.max_n)
    vectors = mean_rows(torch.from_numpy(model.rows), *units).numpy()
    unseen = _by_ngrams(config, model.rows[len(words) :], cased=True)
    return WordTable(words, vectors, unseen, fasttext_file.notes_of(model))


def _by_ngrams(
    config: FastTextConfig, rows: Float32s, cased: bool
) -> Callable[[str], Float32s | None]:
    """Return a function that computes a word's vector as the mean of its n-grams' rows."""

    def unseen(word: str) -> Float32s | None:
        spelled = word if cased else word.lower()
        buckets = buckets_of(spelled, config.buckets, config.min_n, config.max_n)
        return rows[buckets].mean(0) if buckets else None

    return unseen


def of_model(model: Model, layer: int, needed: Sequence[str] = ()) -> WordTable:
    """Return the tokens of a model's vocabulary that begin a word, with their vectors at
    `layer`; raise DataError if there is no vector of a needed word.
    """
    model.spec.require_vectors()
    tokenizer = model.tokenizer
    ids = sorted(set(tokenizer.vocab.values()) - tokenizer.special_ids)
    starting = [id for id in ids if not tokenizer.is_continuation[id]]
    words = [word for word in tokenizer.tokens_of(starting) if word]
    known = set(words)
    embedder = model.embedder(VectorConfig((layer,), pooling="none", normalize=False))

    def vectors_of(words: Sequence[str]) -> Float32s:
        inside = tokenizer.framing.inside
        special = tokenizer.framing.special_tokens()
        of_words = [each.vectors for each in embedder.embed_tokens(words)]
        return np.stack([rows[inside(len(rows) - special)[0]].mean(0) for rows in of_words])

    def is_unknown(word: str) -> bool:
        return tokenizer.unk_id in tokenizer.encode_bare_ids([word])[0]

    def unseen(word: str) -> Float32s | None:
        if is_unknown(word):
            return None
        vector: Float32s = vectors_of([word])[0]
        return vector

    for word in needed:
        if is_unknown(word) and known.isdisjoint(spellings(word)):
            raise no_vector(word, len(words))
    parts = [vectors_of(words[n : n + _AT_ONCE]) for n in range(0, len(words), _AT_ONCE)]
    return WordTable(words, np.concatenate(parts), unseen)


def _mapped(opened: Opened) -> WordTable:
    """Return the memory-mapped table of one of our folders.

    Only the rows that are used are read into memory. fastText computes vectors of other words from
    their character n-grams.
    """
    folder, config = opened.folder, opened.config
    checkpoint.plan(opened)  # checks the names, shapes and types of the tensors
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
    if FILE_WORDS in rules:  # the row of unknown words may be one of the file's words
        names = {str(rules.get("unk_token"))} if rules.get(UNKNOWN_ROW) == "mean" else set()
    word_rows = [row for row, word in enumerate(words) if word not in names]
    rows: Any = word_rows
    if word_rows and word_rows[-1] - word_rows[0] + 1 == len(word_rows):
        rows = slice(word_rows[0], word_rows[-1] + 1)  # a slice copies nothing
    words = [words[row] for row in word_rows]
    table = WordTable(words, _tensor(folder, "encoder.table.weight")[rows])
    if not isinstance(config, FastTextConfig):
        return table
    cased = any(word != word.lower() for word in words)
    of_units = _tensor(folder, "encoder.rows")[config.vocab_size :]
    return replace(table, unseen=_by_ngrams(config, of_units, cased))


def _tensor(folder: Path, name: str) -> Float32s:
    """Return a memory map of one tensor of the weights."""
    with (folder / WEIGHTS).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[name]
    start, shape = 8 + size + entry["data_offsets"][0], tuple(entry["shape"])
    tensor: Float32s = np.memmap(folder / WEIGHTS, np.dtype("<f4"), "r", start, shape)
    return tensor
