"""Convert ARPA files to folders of Bertwright and back; `models/ngram/arpa.py` parses the files.

A folder that is converted from such a file splits a text as KenLM does: into the words between
blanks, exactly as they are spelled in the file; every other word is `<unk>`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bertwright.atomic import atomic_file, refuse_existing, refuse_source
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import open_model
from bertwright.checkpoint.vector_files import save_with_words
from bertwright.errors import ConfigError
from bertwright.models.ngram import arpa
from bertwright.models.ngram.config import NgramConfig
from bertwright.text.tokenizer.tokenizer import make_file_tokenizer


class ImportedNgrams(NamedTuple):
    """The n-grams of an ARPA file that was converted to a folder."""

    sizes: list[int]
    """The number of n-grams of each of the orders 1 to n."""
    notes: tuple[str, ...]
    """Notes for the user about what the file lacks, and the consequences."""


def export_arpa(source: Path, out: Path, overwrite: bool = False) -> list[int]:
    """Write an n-gram model as an ARPA file, and return the number of n-grams of each of the orders
    1 to n.

    Raises:
        ConfigError: the source is not an n-gram model, or `out` exists or has another suffix.
        DataError: a token contains a blank or is empty; or as for `checkpoint.load`.
    """
    if out.suffix != arpa.SUFFIX:
        raise ConfigError(f"DST is {out}; expected a file with {arpa.SUFFIX}")
    refuse_existing(out, overwrite, "DST")
    opened = open_model(source)
    config = opened.config
    if not isinstance(config, NgramConfig):
        raise ConfigError(f"{source} is no n-gram model, and an ARPA file holds no other")
    loaded = checkpoint.load(opened)
    head: Any = loaded.learner.objectives["next_token"]
    tokenizer = opened.tokenizer
    words = arpa.spelled(tokenizer, config.vocab_size)
    tables = [head.table(k) for k in range(1, config.order + 1)]
    with atomic_file(out, overwrite) as file:
        arpa.write(file, words, tables)
    return [len(table.keys) for table in tables]


def import_arpa(source: Path, out: Path, overwrite: bool = False) -> ImportedNgrams:
    """Convert an ARPA file to a folder, whose tokenizer splits texts into the words of the file.

    Raises:
        ConfigError: `out` exists.
        DataError: the file is truncated, or a line does not fit its section.
    """
    refuse_source(out, source, "DST")
    refuse_existing(out, overwrite, "DST")
    words, tables, notes = arpa.read(source)
    sizes = [len(table.keys) for table in tables]
    config = NgramConfig(len(words), len(tables), tuple(sizes[1:]))
    learner = checkpoint.make_learner(config, ["next_token"])
    head: Any = learner.objectives["next_token"]
    head.set_tables(tables)
    unknown = next(name for name in (arpa.UNKNOWN, arpa.UNKNOWN.upper()) if name in words)
    special = {"unk_token": unknown, "bos_token": arpa.BEGIN}
    if arpa.END in words:
        special["eos_token"] = arpa.END
    tokenizer = make_file_tokenizer(words, "language-model", special)
    save_with_words(out, learner, tokenizer, source.name, overwrite)
    return ImportedNgrams(sizes, notes)
