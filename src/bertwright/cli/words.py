"""`bertwright words`: look up, compare and evaluate word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import Json
from bertwright.cli.output import print_json, print_table
from bertwright.console import say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.arrays import Float32s
    from bertwright.inference.vectors.words import WordTable

Vectors = Annotated[
    Path, Parameter(help="A run, a folder of a model, or a file of vectors (.vec, .txt, .bin).")
]
Layer = Annotated[
    int | None, Parameter(help="Layer of a model that has any; unset: 0, its token embeddings.")
]
Top = Annotated[int, Parameter(help="The number of words to show.")]


def nearest(
    *words: str, model: Vectors, top: Top = 10, layer: Layer = None, json: Json = False
) -> None:
    """Show the words with the largest cosine to each word.

    Args:
        words: Words to look up.
    """
    if not words:
        raise ConfigError("no word; write one: bertwright words nearest --model RUN bank")
    table = _opened(model, layer, words)
    found = {word: _near(table, table.require(word), top, [word]) for word in words}
    if json:
        print_json({"nearest": found})
        return
    for word, near in found.items():
        _show(near, word)


def analogy(
    a: str,
    b: str,
    c: str,
    *,
    model: Vectors,
    top: Top = 10,
    layer: Layer = None,
    json: Json = False,
) -> None:
    """Show the words that complete the analogy "A is to B as C is to ...", as man king woman.

    They are the words nearest to the vector B - A + C.

    Args:
        a: First word of the first pair.
        b: Second word of the first pair.
        c: First word of the second pair, whose second word is shown.
    """
    table = _opened(model, layer, [a, b, c])
    vector = table.require(b) - table.require(a) + table.require(c)
    near = _near(table, vector, top, [a, b, c])
    if json:
        print_json({"analogy": [a, b, c], "found": near})
        return
    _show(near, f"{a} : {b} = {c} : ?")


def evaluate(*files: Path, model: list[Path], layer: Layer = None, json: Json = False) -> None:
    """Evaluate word vectors: Spearman's correlation with similarity ratings, accuracy on analogies.

    Pairs and questions with a word that has no vector are left out; the coverage says how many were
    evaluated. Scores have 95 % confidence intervals by bootstrap.

    Args:
        files: Similarity files (two words and a rating per line) and files of analogies
            (questions-words.txt).
        model: A run, a folder of a model, or a file of vectors, as for words nearest; may be given
            several times.
    """
    if not files:
        raise ConfigError("no file; name similarity files, or questions-words.txt")
    from bertwright.labelled.folders import refuse_missing

    for path in files:
        refuse_missing(str(path))
    for each in model:
        _refuse_missing(each)
    from bertwright.inference.word_vectors.evaluate import evaluate_words
    from bertwright.rows.lines import ByteCounts

    shown, rows = [], []
    for each in model:
        table = _opened(each, layer)
        for path in files:
            counts = ByteCounts()
            found = evaluate_words(table, path, counts)
            for remark in counts.byte_remarks():
                say(f"{path}: {remark}")
            shown.append({"model": str(each), "file": str(path), **asdict(found)})
            low, high = found.interval
            coverage = f"{found.covered:,} of {found.total:,}"
            score = f"{found.score:.3f} ({low:.3f} to {high:.3f})"
            rows.append([str(each), path.name, found.metric, score, coverage])
    if json:
        print_json({"results": shown})
        return
    print_table(["model", "file", "metric", "score (95 %)", "covered"], rows)


def _opened(model: Path, layer: int | None, needed: Sequence[str] = ()) -> WordTable:
    """Return the word vectors of a model or a file, and print notes on how they were read. `needed`
    are the words that will be looked up.
    """
    _refuse_missing(model)
    from bertwright.inference.word_vectors.table import open_words

    table = open_words(model, layer, needed)
    for note in table.notes:
        say(note)
    return table


def _refuse_missing(model: Path) -> None:
    """Raise DataError if there is neither a file of vectors nor a model, without torch."""
    from bertwright.checkpoint.missing import refuse_missing_model

    if not model.is_file():
        refuse_missing_model(model)


def _near(table: WordTable, vector: Float32s, top: int, without: list[str]) -> list[dict[str, Any]]:
    """Return the words nearest to a vector with their cosines, except for the words `without`."""
    if top < 1:
        raise ConfigError(f"--top is {top}; expected 1 or more")
    near = table.nearest(vector, top, [table.spelling(word) or word for word in without])
    return [{"word": word, "cosine": cosine} for word, cosine in near]


def _show(near: list[dict[str, Any]], title: str) -> None:
    cells = [[each["word"], f"{each['cosine']:.4f}"] for each in near]
    print_table(["word", "cosine"], cells, title)
