"""A text whose n-grams have all counts."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.data.build import build_shards
from bertwright.data.shards import Shards, open_shards
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_runs import SPECIAL, WORDS


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """A walk over the words whose steps are drawn by Zipf's law: rare n-grams of all counts."""
    folder = tmp_path_factory.mktemp("ngram")
    make_tokenizer([*SPECIAL, *WORDS]).save(folder / "tokenizer")
    draw, lines = np.random.default_rng(2), []
    for _ in range(60):
        steps = np.cumsum(draw.zipf(1.6, draw.integers(20, 60)))
        lines += [" ".join(WORDS[step % len(WORDS)] for step in steps), ""]
    (folder / "corpus.txt").write_text("\n".join(lines))
    build_shards([str(folder / "corpus.txt")], folder / "shards", folder / "tokenizer", workers=1)
    return open_shards(folder / "shards")
