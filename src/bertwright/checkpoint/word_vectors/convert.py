"""Files of word vectors to our own folders, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.atomic import (
    atomic_folder,
    disk_errors,
    refuse_existing,
    refuse_source,
    write_manifest,
)
from bertwright.checkpoint import checkpoint, sources
from bertwright.checkpoint.word_vectors.files import (
    SUFFIXES,
    NamedVectors,
    named,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.config.runs.word_vectors import WordVectorsConfig
from bertwright.errors import ConfigError
from bertwright.text.tokenizer.files import BertRules
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
    cased = any(word != word.lower() for word in words if word != UNKNOWN)
    card = f"# {source.name}\n\nWord vectors, converted by `bertwright convert`.\n"
    with disk_errors(out), atomic_folder(out, overwrite) as partial:
        make_tokenizer(words, BertRules(lowercase=not cased, strip_accents=False)).save(partial)
        checkpoint.save(partial, learner, None, card)
        write_manifest(partial)
    return found


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
    words = tokenizer.tokens_of(range(len(vectors)))
    found = named(words, vectors, tokenizer.special_ids)
    partial = out.with_name(f".{out.name}.partial")
    with disk_errors(out):
        try:
            (write_binary if out.suffix == ".bin" else write_text)(partial, found)
            partial.replace(out)
        finally:
            partial.unlink(missing_ok=True)
    return found
