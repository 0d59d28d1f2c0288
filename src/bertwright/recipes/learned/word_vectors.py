"""Examine what word vectors have learned: word2vec, GloVe, fastText.

Word vectors have no held-out loss, so their page tests their use. Two words that occur near each
other in the text should have a larger cosine than one of them and another word of the same
frequency. Without training, this is true half of the time, in any language. The page also has the
results on two small English sets of our own (`analogies.txt`, `nearer.txt`), whose words may be
missing from a vocabulary.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Int64s
from bertwright.errors import BertwrightError
from bertwright.inference.vectors.words import WordTable
from bertwright.inference.word_vectors.evaluate import WordTestResult, evaluate_words
from bertwright.inference.word_vectors.table import open_words
from bertwright.recipes.learned.run import FinishedRun, training_documents
from bertwright.report import sections
from bertwright.report.numbers import number
from bertwright.report.vector_plot import project
from bertwright.report.verdict import Tested, Verdict, verdict_of_tests
from bertwright.text.scripts import is_word

PAIRS, DISTANCE = 20_000, 3
"""The maximum number of pairs of neighbouring words, and the maximum distance between the two."""
READ = 1_000_000
"""The maximum number of training tokens from which pairs are drawn."""
SHOWN, NEAREST = 12, 6
DRAWN = 250
"""The maximum number of words on the map."""
_LEAST = 30
"""The verdict includes a set of words if those of at least this many of its lines are known."""
_LONGER = "Train longer (--epochs), or on more text."


class Measured(NamedTuple):
    """How often words near each other in the text have a larger cosine than random words."""

    fraction: float
    error: float
    """The standard error of the fraction."""
    pairs: int


class Nearer(NamedTuple):
    """How often the related word of a line in `nearer.txt` is the nearer one."""

    fraction: float
    known: int
    total: int


def table_of(run: FinishedRun) -> WordTable:
    """Return the word vectors of a run."""
    return open_words(run.folder)


def neighbouring_pairs(run: FinishedRun) -> Measured:
    """Return how often words near each other in the text have larger cosines than random words."""
    table = run.once(table_of)
    row_of_id, counts = _rows(run, table)
    shards, documents, _, _ = training_documents(run.shards, run.config, READ)
    first = shards.sentence_tokens[shards.document_sentences[documents]]
    last = shards.sentence_tokens[shards.document_sentences[documents + 1]]
    ids = np.concatenate([shards.tokens(a, b) for a, b in zip(first, last, strict=True)])
    rows = row_of_id[ids]
    # The most frequent words are left out, because they occur next to every word.
    by_count = np.argsort(-counts, kind="stable")
    rank = np.empty(len(counts), np.int64)
    rank[by_count] = np.arange(len(counts))
    common = min(50, len(counts) // 10)
    generator = np.random.default_rng(0)
    at = generator.integers(0, max(1, len(rows) - DISTANCE), 8 * PAIRS)
    a, b = rows[at], rows[at + generator.integers(1, DISTANCE + 1, len(at))]
    fitting = (a >= 0) & (b >= 0) & (a != b)
    fitting &= (rank[np.maximum(a, 0)] >= common) & (rank[np.maximum(b, 0)] >= common)
    a, b = a[fitting][:PAIRS], b[fitting][:PAIRS]
    if not len(a):
        return Measured(0.5, 0.5, 0)
    # Replace b by another word of nearly the same rank.
    spread = np.maximum(10, rank[b] // 4)
    moved = rank[b] + generator.integers(-spread, spread + 1)
    other = by_count[np.clip(moved, common, max(common, int((counts > 0).sum()) - 1))]
    unit = table.unit
    near, far = (unit[a] * unit[b]).sum(1), (unit[a] * unit[other]).sum(1)
    won = np.where(other == b, 0.5, (near > far) + 0.5 * (near == far))
    return Measured(float(won.mean()), float(won.std() / np.sqrt(len(won))), len(won))


def nearer_words(run: FinishedRun) -> Nearer:
    """Return the fraction of the triples of `nearer.txt` whose related word is the nearer one."""
    table = run.once(table_of)
    lines = [line.split() for line in _own_file("nearer.txt") if line and line[0] != "#"]
    right = []
    for words in lines:
        if any(table.spelling(word) is None for word in words):
            continue
        x, near, far = (table.require(word) for word in words)
        right.append(float(x @ near > x @ far))
    return Nearer(float(np.mean(right)) if right else 0.5, len(right), len(lines))


def verdict(run: FinishedRun) -> Verdict:
    """Return whether the vectors are good in all tests of the page, the worst first.

    The words of the text alone would flatter: vectors that have 90 % of these pairs right may know
    nothing of the meaning of words.
    """
    found, nearer = run.once(neighbouring_pairs), run.once(nearer_words)
    if not found.pairs:
        return Verdict("unknown", "")
    near = "words near each other in the text are nearer than others of the same frequency"
    tests = [Tested(near, found.fraction, found.pairs, 0.5, 0.55)]
    if nearer.known >= _LEAST:
        related = "the related of two English words is the nearer"
        tests.append(Tested(related, nearer.fraction, nearer.known, 0.5, 0.75))
    table = run.once(table_of)
    analogies = _analogies(table)
    if analogies is not None and analogies.covered >= _LEAST:
        chance = 1 / max(1, len(table.words))
        what = "English analogies are right"
        tests.append(Tested(what, analogies.score, analogies.covered, chance, 0.1))
    return verdict_of_tests(tests, _LONGER)


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: word tests, neighbours, and a map."""
    table = run.once(table_of)
    _, counts = _rows(run, table)
    frequent = [n for n in np.argsort(-counts, kind="stable").tolist() if counts[n] > 0]
    frequent = [row for row in frequent if is_word(table.words[row])]
    shown = [_tests(run, table)]
    if len(frequent) > NEAREST:
        shown.append(_neighbours(table, frequent, counts))
    if len(frequent) >= 10:
        shown.append(_map(table, frequent[:DRAWN], counts))
    if why := _rising(run):
        shown.append(sections.table("Why the loss rises", [], [[why]]))
    return {"sections": shown}


def _rows(run: FinishedRun, table: WordTable) -> tuple[Int64s, Int64s]:
    """Return the row of each token id in the table, and the count of the word of each row.

    Tokens without a row have -1.
    """
    tokens = run.tokenizer.tokens_of(range(run.shards.vocab_size))
    row_of_id = np.array([table.row.get(token, -1) for token in tokens])
    counts = np.zeros(len(table.words), np.int64)
    known = row_of_id >= 0
    counts[row_of_id[known]] = run.frequencies[0][known]
    return row_of_id, counts


def _tests(run: FinishedRun, table: WordTable) -> sections.Section:
    """Return a table of the results of all tests, with the part that the vocabulary covers."""
    found, nearer = run.once(neighbouring_pairs), run.once(nearer_words)
    rows = [
        [
            "near each other in the text, against another word of the same frequency",
            f"{found.fraction:.1%}",
            "50%",
            f"{found.pairs:,} pairs",
        ]
    ]
    if nearer.known:
        rows.append(
            [
                "the related of two English words is the nearer",
                f"{nearer.fraction:.1%}",
                "50%",
                f"{nearer.known} of {nearer.total} lines",
            ]
        )
    analogies = _analogies(table)
    if analogies is not None:
        rows.append(
            [
                "English analogies (3CosAdd)",
                f"{analogies.score:.1%}",
                f"{1 / max(1, len(table.words)):.2%}",
                f"{analogies.covered} of {analogies.total} lines",
            ]
        )
    note = (
        "The pairs are of the text that was trained on, and of any language. The English sets are "
        "small, and of our own: compare vectors of one vocabulary by them, not with the literature "
        "(bertwright words evaluate FILE reads the published ones)."
    )
    columns = ["test", "right", "by chance", "covered"]
    return sections.table("Tests", columns, rows, note, numbers=(1, 2, 3))


def _analogies(table: WordTable) -> WordTestResult | None:
    """Return the result on `analogies.txt`; None if it cannot be evaluated with this vocabulary."""
    try:
        return evaluate_words(table, Path(str(files(__package__) / "analogies.txt")))
    except BertwrightError:
        return None


def _neighbours(table: WordTable, frequent: list[int], counts: Int64s) -> sections.Section:
    """Return a table of words, from frequent to rare, with their nearest words."""
    often = [row for row in frequent if counts[row] >= 5] or frequent
    places = np.unique(np.geomspace(1, len(often), SHOWN).astype(int)) - 1
    rows = []
    for row in (often[place] for place in places):
        word = table.words[row]
        near = table.nearest(table.vectors[row], NEAREST, without=[word])
        shown = ", ".join(f"{other} {cosine:.2f}" for other, cosine in near)
        rows.append([word, f"{counts[row]:,}", shown])
    note = "Words at equal distances of the logarithm of their rank, and the nearest by cosine."
    return sections.table(
        "Neighbours", ["word", "occurrences", "nearest words"], rows, note, numbers=(1,)
    )


def _map(table: WordTable, rows: list[int], counts: Int64s) -> sections.Section:
    """Return a map of the most frequent words on a plane."""
    points, _ = project(np.asarray(table.unit[rows], np.float32), "tsne")
    decades = [10 ** int(np.log10(max(1, counts[row]))) for row in rows]
    note = "Near are neighbours, far means nothing (t-SNE)."
    return sections.words(
        f"The {len(rows)} most frequent words",
        np.round(points.astype(float), 2).tolist(),
        [table.words[row] for row in rows],
        [f"{decade:,} or more" for decade in decades],
        "occurrences",
        note,
    )


def _rising(run: FinishedRun) -> str:
    """Return a text that explains why the training loss rises; empty if it does not."""
    losses = [number(r.get("loss")) for r in run.records if r.get("split") == "train"]
    known = [loss for loss in losses if loss is not None]
    if len(known) < 2 or known[-1] <= min(known) * 1.005 or "learning_rate" not in run.records[-1]:
        return ""
    return (
        f"The loss rises from {min(known):.3f} to {known[-1]:.3f} while the learning rate falls to "
        "zero. It is measured during the pass, just before each update: at a high rate the vectors "
        "follow the passage at hand, whose words come again, and that lowers its loss. As the rate "
        "falls, this short memory goes. Judge the vectors by the tests above, not by this loss."
    )


def _own_file(name: str) -> list[str]:
    """Return the lines of one of our own test sets."""
    return (files(__package__) / name).read_text("utf-8").splitlines()
