"""Files of word vectors to our own folders, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.atomic import (
    atomic_folder,
    atomic_path,
    refuse_existing,
    refuse_source,
    write_manifest,
)
from bertwright.checkpoint import checkpoint, sources
from bertwright.checkpoint.word_vectors import fasttext
from bertwright.checkpoint.word_vectors.files import (
    SUFFIXES,
    NamedVectors,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.config.runs.word_vectors import WordVectorsConfig
from bertwright.data.word_vectors.subwords import word_units
from bertwright.errors import ConfigError
from bertwright.models.word_vectors import FastText
from bertwright.objectives.objective import Learner
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, BertRules
from bertwright.text.tokenizer.tokenizer import make_tokenizer

UNKNOWN = "[UNK]"


def import_vectors(source: Path, out: Path, overwrite: bool = False) -> NamedVectors:
    """Write a file of vectors as a folder of ours; what was read.

    Its tokenizer splits texts at blanks and punctuation, as BERT's does, so that words which hold
    punctuation are found by `bertwright words` alone; it lower-cases if no word has a capital. A
    word that is not in the file is [UNK], whose vector is the mean of all.

    Args:
        source: the file.
        out: the folder.
        overwrite: whether `out` may be replaced, if Bertwright wrote it.

    Raises:
        ConfigError: `out` is there.
        DataError: as `read_vectors`.
    """
    refuse_source(out, source, "DST")
    refuse_existing(out, overwrite, "DST")
    if source.suffix == ".bin" and fasttext.is_fasttext(source):
        return _import_fasttext(source, out, overwrite)
    found = read_vectors(source)
    words, vectors = list(found.words), found.vectors
    if UNKNOWN not in words:
        words.append(UNKNOWN)
        vectors = np.concatenate([vectors, vectors.mean(0, keepdims=True)])
    config = WordVectorsConfig(len(words), vectors.shape[1])
    with torch.device("meta"):
        learner = checkpoint.make_learner(config, ())
    table = torch.nn.Parameter(torch.from_numpy(vectors))
    learner.encoder.get_submodule("table").register_parameter("weight", table)
    save_with_words(out, learner, words, f"# {source.name}\n\nWord vectors", overwrite)
    return found


def save_with_words(
    out: Path, learner: Learner, words: list[str], card: str, overwrite: bool
) -> None:
    """Write a learner with its vocabulary as a folder of ours; see `import_vectors`."""
    cased = any(word != word.lower() for word in words if word not in SPECIAL_TOKENS.values())
    rules = BertRules(lowercase=not cased, strip_accents=False)
    with atomic_folder(out, overwrite) as partial:
        make_tokenizer(words, rules).save(partial)
        checkpoint.save(partial, learner, None, f"{card}, converted by `bertwright convert`.\n")
        write_manifest(partial)


def _import_fasttext(source: Path, out: Path, overwrite: bool) -> NamedVectors:
    """The same of fastText's own files, with the rows of n-grams and the output vectors."""
    given = fasttext.read(source)
    words, size, width = list(given.words), len(given.words), given.config.hidden_size
    rows, counts, output = given.rows, given.counts, given.output
    if UNKNOWN not in words:
        words.append(UNKNOWN)
        counts = np.append(counts, 0)
        output = np.append(output, np.zeros((1, width), np.float32), 0)
        mean = rows[:size].mean(0, keepdims=True)
        rows = np.concatenate([rows[:size], mean, rows[size:]])
    config = replace(given.config, vocab_size=len(words))
    learner = checkpoint.make_learner(config, ["context_words"])
    encoder: Any = learner.encoder
    bare = {words.index(UNKNOWN)}
    encoder.rows, encoder.counts = torch.from_numpy(rows), torch.from_numpy(counts)
    encoder.set_table(*word_units(words, bare, config.buckets, config.min_n, config.max_n))
    objective: Any = learner.objectives["context_words"]
    objective.output.data = torch.from_numpy(output.astype(np.float32))
    save_with_words(out, learner, words, f"# {source.name}\n\nfastText", overwrite)
    return NamedVectors(words, encoder.table.weight.detach().numpy())


def export_fasttext(source: Path, out: Path, overwrite: bool = False) -> NamedVectors:
    """Write a fastText model as the `.bin` of the published program, frequent words first.

    Raises:
        ConfigError: it is none, `out` is there, or its name has another suffix.
        DataError, IntegrityError: as `checkpoint.load`.
    """
    if out.suffix != ".bin":
        raise ConfigError(f"DST is {out}; expected a file with .bin")
    refuse_existing(out, overwrite, "DST")
    loaded = checkpoint.load(source)
    config, encoder = loaded.config, loaded.learner.encoder
    if not isinstance(encoder, FastText):
        raise ConfigError(f"{source} is no fastText; its vectors go into a file by --to word2vec")
    tokenizer = sources.read_tokenizer(loaded.folder, config)
    counts, rows = encoder.counts.numpy(), encoder.rows.numpy()
    order = np.argsort(-counts, kind="stable")
    kept = np.array([row for row in order.tolist() if row not in tokenizer.special_ids])
    objective: Any = loaded.learner.objectives["context_words"]
    output = objective.output.detach().numpy()
    words = tokenizer.tokens_of(kept.tolist())
    written = fasttext.FastTextFile(
        config,
        words,
        np.maximum(counts[kept], 1),
        np.concatenate([rows[kept], rows[config.vocab_size :]]),
        output[kept] if len(output) == len(counts) else output[: len(kept) - 1],
    )
    with atomic_path(out, overwrite) as partial:
        fasttext.write(partial, written)
    return NamedVectors(words, encoder.table.weight.detach().numpy()[kept])


def export_vectors(source: Path, out: Path, overwrite: bool = False) -> NamedVectors:
    """Write the vectors of a static model as a file, `.bin` binary and others text.

    Raises:
        ConfigError: the model has layers, `out` is there, or its name has another suffix.
        DataError, IntegrityError: as `checkpoint.load`.
    """
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"DST is {out}; expected a file with one of {', '.join(SUFFIXES)}")
    refuse_existing(out, overwrite, "DST")
    loaded = checkpoint.load(source, ())
    encoder: Any = loaded.learner.encoder
    if encoder.spec.depth or encoder.token_embedding() is None:
        raise ConfigError(f"{source} has layers; a file of vectors holds one vector a word")
    tokenizer = sources.read_tokenizer(loaded.folder, loaded.config)
    vectors: Float32s = encoder.token_embedding().weight.detach().numpy()
    kept = [row for row in range(len(vectors)) if row not in tokenizer.special_ids]
    found = NamedVectors(tokenizer.tokens_of(kept), vectors[kept])
    with atomic_path(out, overwrite) as partial:
        (write_binary if out.suffix == ".bin" else write_text)(partial, found)
    return found
