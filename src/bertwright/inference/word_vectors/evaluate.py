"""Evaluate word vectors: Spearman's correlation on similarity ratings, accuracy on analogies.

Pairs with human ratings (WordSim-353, SimLex-999, MEN, RG-65) are evaluated by the rank correlation
between ratings and cosines. In an analogy "a is to b as c is to d" (Mikolov et al. 2013a, section
4), d must be the word nearest to b - a + c, with vectors of length 1 and without the three words
(3CosAdd). Questions with words that have no vector are left out and counted, as is usual. Letters:
Q questions, V words, H width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from bertwright.arrays import Float64s
from bertwright.errors import DataError
from bertwright.inference.vectors.words import WordTable
from bertwright.models.word_vectors.files import NUMBER
from bertwright.rows.lines import ByteCounts, numbered_lines
from bertwright.tasks.metrics import DECIMALS, Statistic, bootstrap, value

_CELLS = 1 << 24
MOST_FREQUENT = 300_000


class VectorQuestion(NamedTuple):
    """A line of a test file."""

    section: str
    """The section of an analogy."""
    words: tuple[str, ...]
    """The two words of a pair, or the four of an analogy."""
    rating: float = float("nan")
    """The rated similarity of a pair."""


def read_word_test(path: str | Path, counts: ByteCounts | None = None) -> list[VectorQuestion]:
    """Read a file of similarity ratings or of analogies.

    A line of ratings is two words and a number, separated by tabs, semicolons, commas or blanks;
    the first line may be a header, and lines after `#` are comments. Analogies are `: section`
    lines and lines of four words. A rating may have a decimal comma (`8,5`), unless cells are
    separated by commas without blanks. `counts` receives what the bytes of the file were.

    Raises:
        DataError: a line has neither format (the message names it), or there are too few pairs or
            questions.
    """
    path = Path(path)
    counts = ByteCounts() if counts is None else counts
    rows = [(number, line) for number, line in numbered_lines(path, counts) if line[0] != "#"]
    analogies = bool(rows) and rows[0][1].startswith(":")
    cells = _cells_of([line for _, line in rows])
    questions: list[VectorQuestion] = []
    section = ""
    for place, (number, line) in enumerate(rows):
        if analogies:
            fields = tuple(re.split(r"[\s,;]+", line))
            if line.startswith(":"):
                section = line[1:].strip()
                continue
            if len(fields) == 4:
                questions.append(VectorQuestion(section, fields))
                continue
            raise DataError(f"line {number} of {path} ({line[:40]!r}) is not four words")
        fields = cells(line)
        rating = _rating(fields)
        if rating is not None and all(fields[:2]):
            questions.append(VectorQuestion("", fields[:2], rating))
        elif place:  # the first line may be a header
            raise DataError(
                f"line {number} of {path} ({line[:40]!r}) is not two words and a number"
            )
    if len(questions) < 2 - analogies:
        raise DataError(
            f"{path} has {len(questions)} pairs with a rating, or questions; expected a similarity "
            "file, or sections (': name') of questions"
        )
    return questions


def _cells_of(lines: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a function that splits the lines of a similarity file into cells.

    It splits at a separator that every line contains twice, else at blanks, semicolons, and commas
    that are not between digits.
    """
    for mark in ("\t", ";", ", ", ","):
        if lines and all(line.count(mark) >= 2 for line in lines):
            return lambda line: tuple(cell.strip(' "') for cell in line.split(mark))
    marks = re.compile(r"(?:[\s;]|,(?!\d)|(?<!\d),)+")
    return lambda line: tuple(marks.split(line))


def _rating(cells: Sequence[str]) -> float | None:
    """Return the first number after two words; None if there is none."""
    numbers = (each.replace(",", ".", 1) for each in cells[2:])
    return next((float(each) for each in numbers if NUMBER.fullmatch(each)), None)


@dataclass(frozen=True)
class WordTestResult:
    """The result of evaluating a test file."""

    metric: str
    """`spearman` or `accuracy`."""
    score: float
    interval: tuple[float, float]
    """The 95 % interval, by bootstrap of the pairs or questions."""
    covered: int
    """The number of pairs or questions all of whose words have a vector."""
    total: int
    sections: dict[str, tuple[int, int]]
    """For analogies: the number of right and of covered questions of each section."""


def evaluate_words(
    table: WordTable, path: str | Path, counts: ByteCounts | None = None
) -> WordTestResult:
    """Evaluate a table of vectors on a test file; `counts` receives what its bytes were.

    Raises:
        DataError: the file cannot be read, or none of its words has a vector.
    """
    test = read_word_test(path, counts)
    least, metric, measure = 2, "spearman", _pairs
    if len(test[0].words) == 4:
        least, metric, measure = 1, "accuracy", _analogies
    statistic, covered, by_section = measure(table, test)
    if covered < least:
        raise DataError(
            f"of {len(test):,} lines of {path} {covered} have a vector for every word; the "
            f"vocabulary has {len(table.words):,} words: is it of another language, or of subwords?"
        )
    score, interval = value(statistic, covered)[metric], bootstrap(statistic, covered)[metric]
    return WordTestResult(metric, score, interval, covered, len(test), by_section)


Measured = tuple[Statistic, int, dict[str, tuple[int, int]]]
"""The statistic of the metric, `covered` and `sections`."""


def _pairs(table: WordTable, test: list[VectorQuestion]) -> Measured:
    cosines_and_ratings = []
    for each in test:
        a, b = map(table.vector, each.words)
        if a is not None and b is not None:
            # equal cosines differ by rounding errors, which must not be ranked
            cosines_and_ratings.append((round(float(a @ b), DECIMALS), each.rating))
    both = np.array(cosines_and_ratings).T

    def statistic(counts: Float64s) -> dict[str, Float64s]:
        return {"spearman": np.array([_spearman(both, row) for row in counts])}

    return statistic, len(cosines_and_ratings), {}


def _spearman(both: Float64s, counts: Float64s) -> float:
    ranks = rankdata(np.repeat(both, counts.astype(np.int64), axis=1), axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    norm = np.sqrt((ranks**2).sum(1).prod())
    return float((ranks[0] * ranks[1]).sum() / norm) if norm else 0.0


def _analogies(table: WordTable, test: list[VectorQuestion]) -> Measured:
    rows, names = [], []
    for each in test:
        of_words = [table.row.get(table.spelling(word) or "", MOST_FREQUENT) for word in each.words]
        if max(of_words) < MOST_FREQUENT:
            rows.append(of_words)
            names.append(each.section)
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

    sections = {}
    for name in dict.fromkeys(each.section for each in test):
        in_section = [n for n, section in enumerate(names) if section == name]
        sections[name] = (int(right[in_section].sum()), len(in_section))
    return statistic, len(ids), sections
