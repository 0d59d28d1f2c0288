"""Models of the published fastText program (`.bin`), which `models/word_vectors/fasttext_file.py`
parses: words, the rows of their character n-grams, and output vectors."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint.formats.format import Contents, FileFormat, Imported
from bertwright.checkpoint.formats.word2vec import (
    ADDED,
    note_of_unknown,
    row_of_unknown,
    rows_of_words,
    tokenizer_of,
    unknown_of,
)
from bertwright.errors import ConfigError
from bertwright.models.load import system_of_config
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.models.word_vectors.fasttext_file import FastTextFile
from bertwright.models.word_vectors.subwords import word_units
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import Tokenizer


class FastText(FileFormat):
    """Models of the published fastText program."""

    name = described_as = "fasttext"
    used_as_is = True
    suffixes = (".bin",)

    def recognize(self, path: Path) -> bool:
        return fasttext_file.is_fasttext(path)

    def describe(self, path: Path) -> Contents:
        model = fasttext_file.read(path)
        sizes = asdict(model.config) | row_of_unknown(model.words)
        notes = fasttext_file.notes_of(model)
        return Contents(sizes, model.rows.size + model.output.size, notes)

    def read(self, path: Path) -> Imported:
        model = fasttext_file.read(path)
        config, words, counts, rows, output, _ = model
        notes = [*fasttext_file.notes_of(model)]
        if config.max_n:
            notes.append(
                "a word that is not in the file has the mean of the vectors of its character "
                "n-grams"
            )
        unknown = unknown_of(words)
        notes.append(
            note_of_unknown("a word without n-grams" if config.max_n else "a word", unknown)
        )
        if unknown is None:
            size, words = len(words), [*words, ADDED]
            rows = np.insert(rows, size, rows[:size].mean(0), 0)
            counts, output = np.append(counts, 0), np.append(output, np.zeros_like(output[:1]), 0)
        config = replace(config, vocab_size=len(words))
        learner = system_of_config(config).make_learner(config, ["context_words"])
        encoder: Any = learner.encoder
        encoder.rows, encoder.counts = torch.from_numpy(rows), torch.from_numpy(counts)
        bare = {words.index(ADDED)} if unknown is None else set[int]()
        encoder.set_table(*word_units(words, bare, config.buckets, config.min_n, config.max_n))
        objective: Any = learner.objectives["context_words"]
        objective.output.data = torch.from_numpy(output)
        sizes = {"words": len(words), "width": encoder.spec.width}
        return Imported(learner, tokenizer_of(words, unknown), sizes, tuple(notes))

    def check(self, config: Any, source: Path) -> None:
        if not isinstance(config, FastTextConfig):
            raise ConfigError(f"{source} is no fastText; write its vectors by --to word2vec")

    def write(
        self, learner: Learner, tokenizer: Tokenizer, out: Path, suffix: str = ""
    ) -> dict[str, Any]:
        """Write a fastText model with the most frequent words first."""
        encoder: Any = learner.encoder
        objective: Any = learner.objectives["context_words"]
        counts, rows = encoder.counts.numpy(), encoder.rows.numpy()
        kept = rows_of_words(learner, tokenizer)
        kept = kept[np.argsort(-counts[kept], kind="stable")]
        rows = np.concatenate([rows[kept], rows[len(counts) :]])
        output = objective.output.detach().numpy()
        # The hierarchical softmax has no row for a word but for each inner node of the Huffman
        # tree. Words without a count, such as special tokens, are in no path, so the last nodes
        # are unused.
        output = output[kept] if len(output) == len(counts) else output[: len(kept) - 1]
        # The published program drops words below its min_count, which is 1 in the file.
        counts = np.maximum(counts[kept], 1)
        words = tokenizer.tokens_of(kept.tolist())
        fasttext_file.write(out, FastTextFile(encoder.config, words, counts, rows, output))
        return {"words": len(words), "width": encoder.spec.width}
