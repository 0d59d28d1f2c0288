"""Built corpora of our own making, without text or tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.atomic import write_manifest
from bertwright.data.shards import (
    FORMAT,
    EncodedBlock,
    Shards,
    ShardWriter,
    open_shards,
    token_dtype,
)

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def write_shards(
    folder: Path,
    lengths: list[list[int]],
    *,
    vocab_size: int = 97,
    shard_tokens: int = 1 << 26,
    word_every: int = 1,
    documents_per_block: int = 1,
    special: dict[str, int] | None = None,
) -> Shards:
    """Documents given as lengths of sentences; ids count up from 5; every n-th starts a word."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = ShardWriter(folder, shard_tokens)
    place = 0
    for first in range(0, len(lengths), documents_per_block):
        block = lengths[first : first + documents_per_block]
        sentences = np.array([n for document in block for n in document], np.int64)
        places = np.arange(place, place + sentences.sum())
        place += len(places)
        writer.append(
            EncodedBlock(
                tokens=(5 + places % (vocab_size - 5)).astype(token_dtype(vocab_size)),
                word_starts=places % word_every == 0,
                sentence_lengths=sentences,
                document_lengths=np.array([len(document) for document in block], np.int64),
                counts={},
            )
        )
    writer.end_shard()
    total = sum(map(sum, lengths))
    extra: dict[str, Any] = {
        "format": FORMAT,
        "tokenizer": {
            "fingerprint": "f" * 64,
            "vocab_size": vocab_size,
            "special_ids": list(range(5)),
            "special": SPECIAL if special is None else special,
        },
        "counts": {"documents_read": len(lengths), "documents_lost": 0, "tokens": total},
        "shards": [{k: v for k, v in each.items() if k != "files"} for each in writer.finished],
        "segmented": False,
    }
    write_manifest(folder, extra)
    return open_shards(folder)


@pytest.fixture
def make_shards(tmp_path: Path) -> Callable[..., Shards]:
    def make(lengths: list[list[int]], name: str = "shards", **options: Any) -> Shards:
        return write_shards(tmp_path / name, lengths, **options)

    return make


@pytest.fixture
def some_lengths() -> list[list[int]]:
    """60 documents of 1 to 40 sentences of 1 to 60 tokens."""
    random = np.random.default_rng(1)
    return [random.integers(1, 60, size=random.integers(1, 40)).tolist() for _ in range(60)]


@pytest.fixture
def shards(make_shards: Callable[..., Shards], some_lengths: list[list[int]]) -> Shards:
    """A corpus of these documents."""
    return make_shards(some_lengths)
