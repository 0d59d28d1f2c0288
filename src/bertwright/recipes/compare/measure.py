"""Measure a rung without labels: on held-out text, minimal pairs, words and senses of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.resources import as_file, files
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from bertwright.errors import DataError
from bertwright.inference.files.perplexity import minimal_pairs, side_by_side
from bertwright.inference.files.texts import open_minimal_pairs
from bertwright.inference.model import Model
from bertwright.inference.senses import read_usages, score_words, vectors_of_usages
from bertwright.inference.word_vectors.evaluate import evaluate_words
from bertwright.inference.word_vectors.table import open_words
from bertwright.recipes.compare.rungs import Rung
from bertwright.recipes.compare.stages import Found
from bertwright.recipes.compare.text import WRITTEN, TextFolders
from bertwright.report.ladder import OWN_PAIRS
from bertwright.text.tokenizer.tokenizer import Tokenizer

KNOWN = 0.6
"""The fraction of the words of our own English tests that the vocabulary must know for them to be
used. The documentation of a small Python installation knows 80 % of them.
"""


WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+|[^\w\s]")
"""A word, a punctuation mark, or a character of a script that is written without spaces."""
TOKENS_A_WORD = 1.3
"""The approximate number of wordpieces of a word, in a vocabulary of 8,192."""
SCORED_A_SECOND = 5000.0
"""The number of tokens per second that a model reads to score sentences, measured with `bert-mini`
on one busy CPU core.
"""


def measure_text(rung: Rung, model: Model, folders: TextFolders) -> Found:
    """Return the bits per character of a model on the held-out text.

    A masked language model is evaluated on some of the sentences, by their pseudo-log-likelihood.
    """
    corpus, file = WRITTEN, folders.held_out
    with TemporaryDirectory() as folder:
        if rung.scores == "masked":
            corpus, file = replace(WRITTEN, documents="line"), Path(folder, "sentences.txt")
            file.write_text("\n".join(_readable(model, folders.sentences)), encoding="utf-8")
        found = side_by_side([model], [str(file)], corpus, spelling=folders.spelling())
    return {**found["models"][0], "characters": found["characters"]}


def _readable(model: Model, path: Path) -> list[str]:
    """Return the sentences of a file that fit the model's longest sequence.

    If tokens are short, as in Chinese, 200 characters can be longer than this.

    Raises:
        DataError: no sentence fits.
    """
    sentences = path.read_text(encoding="utf-8").splitlines()
    if sentences and (longest := model.runner.spec.max_length) is not None:
        _, lengths = model.tokenizer.encode_sentence_ids(sentences)
        fits = lengths + model.tokenizer.framing.special_tokens() <= longest
        sentences = [each for each, own in zip(sentences, fits.tolist(), strict=True) if own]
    if not sentences:
        raise DataError("the held-out text has no sentence of 20 to 200 characters that it reads")
    return sentences


def measure_pairs(model: Model, paths: Sequence[str], own: bool) -> Found:
    """Return the accuracy on each table of minimal pairs, by the name of its file.

    If `own`, our own table is included.
    """
    found = {}
    with as_file(files(__package__) / OWN_PAIRS) as path:
        for each in [*paths, *([str(path)] if own else [])]:
            result = minimal_pairs([model], each)
            found[Path(each).name] = {"accuracy": result["accuracy"], "pairs": result["pairs"]}
    return found


def seconds_of_pairs(paths: Sequence[str], masked: bool) -> float:
    """Return the approximate time of `measure_pairs` in seconds, including our own pairs.

    Args:
        paths: the paths of the tables of minimal pairs.
        masked: whether the model is a masked language model, which reads a sentence of T tokens
            T - 2 times.

    Raises:
        DataError: a table cannot be read.
    """
    tokens = 0.0
    with as_file(files(__package__) / OWN_PAIRS) as own:
        for path in [*paths, str(own)]:
            for pair, _ in open_minimal_pairs(path).rows:
                for sentence in pair:
                    length = 2 + TOKENS_A_WORD * len(WORD.findall(sentence))
                    tokens += length * (length - 2) if masked else length
    return tokens / SCORED_A_SECOND


def measure_words(run: Path, paths: Sequence[str]) -> Found:
    """Return the results on similarity and analogy files, by the names of the files.

    If a file cannot be evaluated, its entry is the reason.
    """
    table = open_words(run)
    found: Found = {}
    for path in paths:
        try:
            figures = asdict(evaluate_words(table, path))
        except DataError as error:
            found[Path(path).name] = {"reason": str(error)}
        else:
            del figures["sections"]
            found[Path(path).name] = figures
    return found


def measure_senses(model: Model) -> Found:
    """Return the accuracy on our sentences with ambiguous words, by layer.

    `accuracy` is that of the best layer.
    """
    usages = read_usages()
    scores = score_words(vectors_of_usages(model, usages), usages)
    by_layer = [fmean(layer[:, 0].tolist()) for layer in scores]
    best = max(range(len(by_layer)), key=by_layer.__getitem__)
    return {"accuracy": by_layer[best], "layer": best, "by_layer": by_layer}


def is_english(words: Tokenizer) -> bool:
    """Return whether a word vocabulary knows at least `KNOWN` of the words of our English tests."""
    sentences = [usage.sentence for usage in read_usages()]
    flat, _ = words.encode_sentence_ids(sentences)
    return bool((flat != words.unk_id).mean() >= KNOWN)
