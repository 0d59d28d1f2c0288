"""Extend the vocabulary of a trained BERT with the words of a corpus from another domain.

The result is a checkpoint like any other. The new rows of its embeddings are untrained until
`bertwright data build --tokenizer DIR` and `bertwright pretrain --init DIR` continue from it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.atomic import atomic_folder, refuse_folder, refuse_source, write_manifest
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.extension import extend_learner
from bertwright.checkpoint.sentence_transformers.folder import write_defaults
from bertwright.config.corpus import CorpusConfig
from bertwright.config.values import to_dict
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.extension import Addition, choose_additions
from bertwright.text.tokenizer.word_counts import count_words

EXTENSION = "extension.json"


@dataclass(frozen=True)
class Extension:
    """The entries that were added to a vocabulary, and their effect."""

    folder: Path
    vocab_before: int
    """The number of tokens of the old tokenizer."""
    vocab_after: int
    additions: list[Addition]
    tokens_before: int
    """The number of tokens of the corpus with the old vocabulary."""
    tokens_after: int

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for `--json` and `extension.json`."""
        characters = sum(not each.replaces for each in self.additions)
        return {
            "folder": str(self.folder),
            "vocab_before": self.vocab_before,
            "vocab_after": self.vocab_after,
            "words_added": len(self.additions) - characters,
            "characters_added": characters,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "first": [each.token for each in self.additions if each.replaces][:20],
        }


def extend(
    model: str | Path,
    inputs: Sequence[str],
    out: Path,
    *,
    add: int = 2000,
    min_count: int = 5,
    reading: CorpusConfig | None = None,
    workers: int = 0,
    overwrite: bool = False,
    on_progress: OnProgress = silent,
) -> Extension:
    """Write a checkpoint whose vocabulary is extended with words of a corpus.

    If the model is a sentence-transformers folder, the result is one too, and computes its vectors
    in the same way.

    Args:
        model: a run, a checkpoint, a Hugging Face or sentence-transformers folder.
        inputs: the files of the corpus.
        out: the folder to write.
        add: the maximum number of new entries.
        min_count: the minimum count of a word in the corpus; rarer words are not added.
        reading: how documents are read.
        workers: the number of processes that count words; 0: one for each core. The result does
            not depend on it.
        overwrite: whether to replace an existing folder.
        on_progress: called with the number of characters read.

    Raises:
        ConfigError: `add` or `min_count` is below 1, or `workers` below 0; `out` is not empty, or
            is an input.
        DataError: there is no model, no document or no word, or no word needs to be added.
    """
    given = (("add", add, 1), ("min_count", min_count, 1), ("workers", workers, 0))
    for name, value, least in given:
        if value < least:
            raise ConfigError(f"{name} is {value}; expected {least} or more")
    for source in (model, *find_files(inputs)):
        refuse_source(out, source)
    refuse_folder(out, overwrite)
    loaded = checkpoint.load(model)
    refuse_source(out, loaded.opened.folder)  # the newest checkpoint, if `model` is a run
    defaults, tokenizer = loaded.opened.embedding, loaded.opened.tokenizer
    reading = reading or CorpusConfig()
    counted = count_words(
        read_blocks(inputs, reading, CorpusReport()),
        tokenizer.rules,
        workers=workers,
        on_progress=on_progress,
    )
    additions = choose_additions(counted.counts, tokenizer, add, min_count)
    if not additions:
        raise DataError(
            f"nothing to add: no word that occurs {min_count} times or more in the corpus "
            f"({counted.words} words) is split into wordpieces; give more text or a lower "
            "--min-count"
        )
    larger = tokenizer.extended([each.token for each in additions])
    words, times = list(counted.counts), list(counted.counts.values())
    before, after = (
        int(np.dot(each.encode_sentence_ids(words)[1], times)) for each in (tokenizer, larger)
    )
    sizes = tokenizer.vocab_size, larger.vocab_size
    extension = Extension(out, *sizes, additions, before, after)
    pieces = [each.replaces for each in additions]
    length = loaded.opened.max_length
    learner, _ = extend_learner(
        loaded.learner, loaded.config, loaded.tasks, tokenizer.vocab_size, pieces
    )
    record = {
        **extension.as_dict(),
        "model": str(model),
        "min_count": min_count,
        "corpus": to_dict(reading),
        "added": [[each.token, each.count, len(each.replaces)] for each in additions],
    }
    del record["folder"]
    with atomic_folder(out, overwrite) as folder, tempfile.TemporaryDirectory() as beside:
        larger.save(beside)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        checkpoint.save(
            folder,
            learner,
            Path(beside),
            _card(extension),
            {EXTENSION: text},
            tasks=loaded.tasks,
            trained_length=length,
        )
        if defaults is not None:
            write_defaults(folder, defaults, loaded.config.hidden_size)
        write_manifest(folder)
    return extension


def _card(extension: Extension) -> str:
    return (
        "# A BERT with an extended vocabulary\n\n"
        f"{extension.vocab_after - extension.vocab_before} entries were added to "
        f"{extension.vocab_before}, each initialized from the wordpieces it replaces (a character "
        "that was lacking, from all rows). The new rows are still untrained: continue with "
        "`bertwright data build --tokenizer` and `bertwright pretrain --init` before use.\n\n"
        f"The corpus has {extension.tokens_before:,} tokens without them and "
        f"{extension.tokens_after:,} with them.\n"
    )
