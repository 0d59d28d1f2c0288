"""N-gram models as ARPA files, which `models/ngram/arpa.py` parses.

A model that is read from such a file splits a text as KenLM does: into the words between blanks,
exactly as they are spelled in the file; every other word is `<unk>`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertwright.checkpoint.formats.format import Contents, FileFormat, Imported
from bertwright.errors import ConfigError
from bertwright.models.load import system_of_config
from bertwright.models.ngram import arpa
from bertwright.models.ngram.config import NgramConfig
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_file_tokenizer


class Arpa(FileFormat):
    """N-gram models as ARPA files."""

    name = described_as = "arpa"
    suffixes = (arpa.SUFFIX,)

    def recognize(self, path: Path) -> bool:
        return arpa.is_arpa(path)

    def describe(self, path: Path) -> Contents:
        words, tables, notes = arpa.read(path)
        sizes = {"words": len(words), "order": len(tables)}
        sizes |= {f"{k}-grams": len(table.keys) for k, table in enumerate(tables, 1)}
        return Contents(sizes, notes=notes)

    def read(self, path: Path) -> Imported:
        words, tables, notes = arpa.read(path)
        sizes = [len(table.keys) for table in tables]
        config = NgramConfig(len(words), len(tables), tuple(sizes[1:]))
        learner = system_of_config(config).make_learner(config, ["next_token"])
        head: Any = learner.objectives["next_token"]
        head.set_tables(tables)
        unknown = next(name for name in (arpa.UNKNOWN, arpa.UNKNOWN.upper()) if name in words)
        special = {"unk_token": unknown, "bos_token": arpa.BEGIN}
        if arpa.END in words:
            special["eos_token"] = arpa.END
        tokenizer = make_file_tokenizer(words, "language-model", special)
        return Imported(learner, tokenizer, {"ngrams": sizes}, notes)

    def check(self, config: Any, source: Path) -> None:
        if not isinstance(config, NgramConfig):
            raise ConfigError(f"{source} is no n-gram model, and an ARPA file holds no other")

    def write(
        self, learner: Learner, tokenizer: Tokenizer, out: Path, suffix: str = ""
    ) -> dict[str, Any]:
        """Write an n-gram model."""
        head: Any = learner.objectives["next_token"]
        config: Any = learner.encoder.config
        words = arpa.spelled(tokenizer, config.vocab_size)
        tables = [head.table(k) for k in range(1, config.order + 1)]
        with out.open("w", encoding="utf-8") as file:
            arpa.write(file, words, tables)
        return {"ngrams": [len(table.keys) for table in tables]}
