"""Byte-level BPE (Radford et al. 2019, section 2.2): merges of bytes, so that no text is unknown.

Text is split into words with the blank before each, as GPT-2 does; bytes stand as printable
characters. Training and rules are those of the `tokenizers` library. One special token,
`<|endoftext|>`, begins and ends a text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.text.corpus.files import find_files, size_on_disk
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.files import END_OF_TEXT, ends_config, split_by_bytes
from bertwright.text.tokenizer.tokenizer import Tokenizer

SMALLEST = 257
"""The bytes and the special token."""


@dataclass(frozen=True)
class ByteBpeTraining:
    """What training met and made; the fields of `training.json`."""

    algorithm: str
    vocab_size: int
    """Entries of the vocabulary; below `--vocab-size` where the corpus has no more."""
    documents: int
    characters: int
    seconds_learning: float

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, ready for JSON."""
        return asdict(self)


def train_byte_bpe(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport | None = None,
    on_read: OnProgress = silent,
) -> tuple[Tokenizer, ByteBpeTraining]:
    """Train a byte-level BPE on files, folders or globs.

    Of the configuration it reads `vocab_size`, `min_frequency` and `lowercase`.

    Raises:
        ConfigError: the vocabulary has no room for the bytes.
        DataError: the corpus has no text.
    """
    if config.vocab_size < SMALLEST:
        raise ConfigError(
            f"vocab_size is {config.vocab_size}; the bytes and {END_OF_TEXT} alone are {SMALLEST}"
        )
    begin = time.monotonic()
    report = CorpusReport() if report is None else report
    size = size_on_disk(find_files(inputs))
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.Lowercase() if config.lowercase else None
    split_by_bytes(backend)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )

    def documents() -> Iterator[str]:
        for block in read_blocks(inputs, corpus, report):
            yield from block
            on_read(report.position, size)

    backend.train_from_iterator(documents(), trainer)
    if not report.characters:
        raise DataError("no text to train on: give a corpus with text in it")
    tokenizer = Tokenizer(backend, ends_config(backend, lowercase=config.lowercase))
    training = ByteBpeTraining(
        config.algorithm,
        tokenizer.vocab_size,
        report.documents,
        report.characters,
        round(time.monotonic() - begin, 2),
    )
    return tokenizer, training
