"""A text of two thousand words whose sentences count on, and labels that words tell apart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.small_runs import WORDS


def write_text(path: Path, documents: int = 60, sentences: int = 10) -> Path:
    """Documents of sentences that count on from a word."""
    chance = random.Random(1)
    lines = []
    for _ in range(documents):
        for _ in range(sentences):
            first, length = chance.randrange(len(WORDS)), chance.randint(4, 12)
            lines.append(" ".join(WORDS[(first + n) % len(WORDS)] for n in range(length)) + " .")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_labels(path: Path, count: int) -> Path:
    """Texts of the first half of the words, or of the second."""
    chance, half = random.Random(len(path.name)), len(WORDS) // 2
    rows = ["text\tlabel"]
    for number in range(count):
        first = chance.randrange(half - 6) + half * (number % 2)
        rows.append(f"{' '.join(WORDS[first : first + 6])} .\t{('low', 'high')[number % 2]}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_text(tmp_path / "corpus.txt")
