"""Word vectors evaluated: similarity of pairs by Spearman's correlation, analogies by accuracy.

Pairs with people's ratings (WordSim-353, SimLex-999, MEN, RG-65): the correlation of ranks between
ratings and cosines. Analogies "a is to b as c is to d" (Mikolov et al. 2013a, section 4): d must be
the word nearest to b - a + c, vectors of length 1, the three left out (3CosAdd). Words without a
vector are left out and counted, as is usual. Letters: Q questions, V words, H width.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.stats import rankdata

from bertwright.arrays import Float64s
from bertwright.errors import DataError
from bertwright.inference.word_vectors.table import WordTable
from bertwright.tasks.metrics import Statistic, bootstrap, value

_CELLS = 1 << 24
MOST_FREQUENT = 300_000


@dataclass(frozen=True)
class Pairs:
    """A similarity file."""

    words: list[tuple[str, str]]
    ratings: list[float]


Analogies = dict[str, list[tuple[str, str, str, str]]]
"""A file of questions: section -> rows of four words."""


def read_word_test(path: str | Path) -> Pairs | Analogies:
    """A similarity file (two words and a number a line; tabs, spaces, commas or semicolons; a first
    line of names) or questions (`: section`, then four words a line).

    Raises:
        DataError: a line is neither; the message names it.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 (byte {error.start}): no file of word pairs"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if rows and rows[0][1].startswith(":"):
        return _questions(path, rows)
    words: list[tuple[str, str]] = []
    ratings: list[float] = []
    for number, line in rows:
        fields = re.split(r"[\s,;]+", line)
        rating = next((float(each) for each in fields[2:] if _is_number(each)), None)
        if rating is None and (line.startswith("#") or not words):
            continue
        if rating is None:
            raise DataError(
                f"line {number} of {path} ({line[:40]!r}) has no two words and a number; expected "
                "a similarity file, or questions that begin with a section (': name')"
            )
        words.append((fields[0], fields[1]))
        ratings.append(rating)
    if len(words) < 2:
        raise DataError(f"{path} has {len(words)} pairs with a rating; expected two or more")
    return Pairs(words, ratings)


def _questions(path: Path, rows: list[tuple[int, str]]) -> Analogies:
    sections: Analogies = {}
    own: list[tuple[str, str, str, str]] = []
    for number, line in rows:
        fields = line.split()
        if line.startswith(":"):
            own = sections.setdefault(line[1:].strip(), [])
        elif len(fields) == 4:
            own.append((fields[0], fields[1], fields[2], fields[3]))
        else:
            raise DataError(f"line {number} of {path} ({line[:40]!r}) is not four words")
    if not any(sections.values()):
        raise DataError(f"{path} has sections, but no questions")
    return sections


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d+)?", text) is not None


@dataclass(frozen=True)
class WordTestResult:
    """What a file gave."""

    metric: str
    """`spearman` or `accuracy`."""
    score: float
    interval: tuple[float, float]
    """95 %, by bootstrap of the pairs or questions."""
    covered: int
    """Pairs or questions of which every word has a vector."""
    total: int
    sections: dict[str, tuple[int, int]]
    """Analogies: section -> right, covered."""


def evaluate_words(table: WordTable, path: str | Path) -> WordTestResult:
    """Evaluate a table on a file.

    Raises:
        DataError: the file cannot be read, or no word of it has a vector.
    """
    test = read_word_test(path)
    least, measure = (2, _pairs) if isinstance(test, Pairs) else (1, _analogies)
    metric, statistic, covered, total, sections = measure(table, cast(Any, test))
    if covered < least:
        raise DataError(
            f"of {total:,} lines of {path} {covered} have a vector for every word; the vocabulary "
            f"has {len(table.words):,} words: is it of another language, or of subwords?"
        )
    score, interval = value(statistic, covered)[metric], bootstrap(statistic, covered)[metric]
    return WordTestResult(metric, score, interval, covered, total, sections)


Measured = tuple[str, Statistic, int, int, dict[str, tuple[int, int]]]
"""A metric, how it is computed, and all of a `WordTestResult` but the figures."""


def _pairs(table: WordTable, test: Pairs) -> Measured:
    cosines, ratings = [], []
    for (one, other), rating in zip(test.words, test.ratings, strict=True):
        a, b = table.vector(one), table.vector(other)
        if a is not None and b is not None:
            cosines.append(float(a @ b))
            ratings.append(rating)
    both = np.array([cosines, ratings])

    def statistic(counts: Float64s) -> dict[str, Float64s]:
        return {"spearman": np.array([_spearman(both, row) for row in counts])}

    return "spearman", statistic, len(cosines), len(test.words), {}


def _spearman(both: Float64s, counts: Float64s) -> float:
    ranks = rankdata(np.repeat(both, counts.astype(np.int64), axis=1), axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    norm = np.sqrt((ranks**2).sum(1).prod())
    return float((ranks[0] * ranks[1]).sum() / norm) if norm else 0.0


def _analogies(table: WordTable, test: Analogies) -> Measured:
    rows: list[list[int]] = []
    sections, total = {}, 0
    for name, questions in test.items():
        total += len(questions)
        spelled = [[table.spelling(word) for word in each] for each in questions]
        known = [[table.row[w] for w in each if w is not None] for each in spelled]
        known = [each for each in known if len(each) == 4 and max(each) < MOST_FREQUENT]
        sections[name] = (len(rows), len(rows) + len(known))
        rows += known
    ids = np.array(rows)  # [Q, 4]
    unit = table.unit[:MOST_FREQUENT]
    right = np.empty(len(ids))
    step = max(1, _CELLS // len(unit))
    for start in range(0, len(ids), step):
        a, b, c, d = ids[start : start + step].T
        cosines = (unit[b] - unit[a] + unit[c]) @ unit.T  # [Q', V]
        np.put_along_axis(cosines, np.stack([a, b, c], 1), -np.inf, 1)
        right[start : start + step] = cosines.argmax(1) == d

    def statistic(counts: Float64s) -> dict[str, Float64s]:
        return {"accuracy": counts @ right / counts.sum(1)}

    by_section = {
        name: (int(right[start:stop].sum()), stop - start)
        for name, (start, stop) in sections.items()
    }
    return "accuracy", statistic, len(ids), total, by_section
