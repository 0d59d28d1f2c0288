"""Convert files of word vectors to folders of Bertwright and back; `models/word_vectors` parses the
files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from bertwright.arrays import Float32s, Int64s
from bertwright.atomic import (
    atomic_folder,
    atomic_path,
    refuse_existing,
    refuse_source,
    write_manifest,
)
from bertwright.checkpoint import checkpoint
from bertwright.errors import ConfigError
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.config import WordVectorsConfig
from bertwright.models.word_vectors.encoder import FastText
from bertwright.models.word_vectors.files import (
    SUFFIXES,
    NamedVectors,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.models.word_vectors.subwords import word_units
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.file_words import UNKNOWN_NAMES
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_file_tokenizer

UNKNOWN = "[UNK]"
"""The name of the row of unknown words that is added to a file without one."""
Form = Literal["word2vec", "fasttext"]


class Imported(NamedTuple):
    """The content of a file of word vectors that was converted to a folder."""

    words: list[str]
    """The words of all rows, including the row of unknown words."""
    vectors: Float32s
    """The vectors `[V, H]`."""
    unknown: str | None
    """The name of the file's row of unknown words; None: the mean of all vectors was added."""
    notes: tuple[str, ...]
    """Notes for the user about what was left out, replaced or assumed."""


def import_vectors(source: Path, out: Path, overwrite: bool = False) -> Imported:
    """Convert a file of word vectors, or a `.bin` of fastText, to a folder, and return its content.

    The tokenizer of the folder splits texts into the words of the file
    (`text/tokenizer/file_words.py`). A word that is not in the file gets the vector of the file's
    row of unknown words (`<unk>`, `UNK`), or the mean of all vectors if the file has no such row.

    Raises:
        ConfigError: `out` exists.
        DataError, MissingExtra: as for `read_vectors`.
    """
    refuse_source(out, source, "DST")
    refuse_existing(out, overwrite, "DST")
    notes: list[str] = []
    if fasttext_file.is_fasttext(source):
        read = fasttext_file.read(source)
        notes += fasttext_file.notes_of(read)
        if read.config.max_n:
            notes.append(
                "a word that is not in the file has the mean of the vectors of its character "
                "n-grams"
            )
        words, learner, unknown = _fasttext(read)
    else:
        found = read_vectors(source)
        notes += found.notes
        words, learner, unknown = _table(found.words, found.vectors)
    added = None if unknown is not None else "mean"
    special = {"unk_token": unknown or UNKNOWN}
    tokenizer = make_file_tokenizer(words, "vectors", special, added)
    save_with_words(out, learner, tokenizer, source.name, overwrite)
    table: Any = learner.encoder.token_embedding()
    has_ngrams = isinstance(learner.encoder, FastText) and learner.encoder.config.max_n > 0
    what = "a word without n-grams" if has_ngrams else "a word"
    notes.append(
        f"{what} that is not in the file has the vector of its row {unknown!r}"
        if unknown is not None
        else f"{what} that is not in the file has the mean of all vectors: the file has no row "
        "for unknown words"
    )
    return Imported(words, table.weight.detach().numpy(), unknown, tuple(notes))


def save_with_words(
    out: Path, learner: Learner, tokenizer: Tokenizer, name: str, overwrite: bool
) -> None:
    """Write a learner and the tokenizer of the words of its file as a new folder."""
    with atomic_folder(out, overwrite) as partial:
        tokenizer.save(partial)
        card = f"# {name}\n\nConverted by `bertwright convert`.\n"
        checkpoint.save(partial, learner, None, card)
        write_manifest(partial)


def unknown_of(words: list[str]) -> str | None:
    """Return the name of a file's row of unknown words; None if it has none."""
    there = set(words)
    return next((name for name in UNKNOWN_NAMES if name in there), None)


def _table(words: list[str], vectors: Float32s) -> tuple[list[str], Learner, str | None]:
    unknown = unknown_of(words)
    if unknown is None:
        words = [*words, UNKNOWN]
        vectors = np.concatenate([vectors, vectors.mean(0, keepdims=True)])
    with torch.device("meta"):
        learner = checkpoint.make_learner(WordVectorsConfig(*vectors.shape), ())
    learner.load_state_dict({"encoder.table.weight": torch.from_numpy(vectors)}, assign=True)
    return words, learner, unknown


def _fasttext(given: fasttext_file.FastTextFile) -> tuple[list[str], Learner, str | None]:
    """Return the words of a fastText file, a learner with its n-gram rows and output vectors, and
    the name of its row of unknown words, or None if it has none."""
    config, words, counts, rows, output, _ = given
    unknown = unknown_of(words)
    if unknown is None:
        size, words = len(words), [*words, UNKNOWN]
        rows = np.insert(rows, size, rows[:size].mean(0), 0)
        counts, output = np.append(counts, 0), np.append(output, np.zeros_like(output[:1]), 0)
    config = replace(config, vocab_size=len(words))
    learner = checkpoint.make_learner(config, ["context_words"])
    encoder: Any = learner.encoder
    encoder.rows, encoder.counts = torch.from_numpy(rows), torch.from_numpy(counts)
    bare = {words.index(UNKNOWN)} if unknown is None else set[int]()
    encoder.set_table(*word_units(words, bare, config.buckets, config.min_n, config.max_n))
    objective: Any = learner.objectives["context_words"]
    objective.output.data = torch.from_numpy(output)
    return words, learner, unknown


def export_vectors(
    source: Path, out: Path, overwrite: bool = False, to: Form = "word2vec"
) -> NamedVectors:
    """Write the vectors of a static model to a file, and return them.

    A `.bin` file is binary; files with other suffixes are text. With `to="fasttext"`, a fastText
    model is written as a `.bin` of the published program, with the most frequent words first.

    Raises:
        ConfigError: the model has layers, or is not a fastText model with `to="fasttext"`; or `out`
            exists or has another suffix.
    """
    suffixes = (".bin",) if to == "fasttext" else SUFFIXES
    if out.suffix not in suffixes:
        raise ConfigError(f"DST is {out}; expected a file with one of {', '.join(suffixes)}")
    refuse_existing(out, overwrite, "DST")
    loaded = checkpoint.load(source)
    encoder = loaded.learner.encoder
    table = encoder.token_embedding()
    if encoder.spec.depth or table is None:
        raise ConfigError(f"{source} has layers; a file of vectors holds one vector a word")
    tokenizer = loaded.opened.tokenizer
    added = sorted(tokenizer.special_ids - tokenizer.words_of_file)
    kept = np.setdiff1d(np.arange(encoder.spec.vocab_size), added)
    if to == "fasttext":
        if not isinstance(encoder, FastText):
            raise ConfigError(f"{source} is no fastText; write its vectors by --to word2vec")
        kept = kept[np.argsort(-encoder.counts.numpy()[kept], kind="stable")]
    words = tokenizer.tokens_of(kept.tolist())
    found = NamedVectors(words, table.weight.detach().numpy()[kept])
    with atomic_path(out, overwrite) as partial:
        if to == "fasttext":
            fasttext_file.write(partial, _fasttext_file(loaded, words, kept))
        else:
            (write_binary if out.suffix == ".bin" else write_text)(partial, found)
    return found


def _fasttext_file(loaded: Any, words: list[str], kept: Int64s) -> fasttext_file.FastTextFile:
    encoder, objective = loaded.learner.encoder, loaded.learner.objectives["context_words"]
    counts, rows = encoder.counts.numpy(), encoder.rows.numpy()
    rows = np.concatenate([rows[kept], rows[len(counts) :]])
    output = objective.output.detach().numpy()
    # The hierarchical softmax has no row for a word but for each inner node of the Huffman tree.
    # Words without a count, such as special tokens, are in no path, so the last nodes are unused.
    output = output[kept] if len(output) == len(counts) else output[: len(kept) - 1]
    # The published program drops words below its min_count, which is 1 in the file.
    counts = np.maximum(counts[kept], 1)
    return fasttext_file.FastTextFile(loaded.config, words, counts, rows, output)
