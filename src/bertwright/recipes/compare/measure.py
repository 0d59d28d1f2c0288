"""Measure a system without labels: on held-out text, minimal pairs, words and senses of words.

A measurement is one class here and its row in `MEASUREMENTS`. The plan then has its steps, and each
of its rows is a column of the table of text and words, by its metric and its test. The last one,
`Examples`, has texts in place of figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from bertwright.atomic import sha256_file
from bertwright.config.compare import CompareConfig
from bertwright.errors import DataError
from bertwright.inference.files.perplexity import minimal_pairs, side_by_side
from bertwright.inference.files.texts import open_minimal_pairs
from bertwright.inference.model import Model, load
from bertwright.inference.senses import read_usages, score_words, vectors_of_usages
from bertwright.inference.word_vectors.evaluate import evaluate_words
from bertwright.inference.word_vectors.table import open_words
from bertwright.recipes.compare.examples import choose, examples
from bertwright.recipes.compare.steps import OVERHEAD, Comparison, Done, SystemStep
from bertwright.recipes.compare.systems import Entry
from bertwright.recipes.compare.text import WRITTEN, TextFolders
from bertwright.recipes.compare.train import Pretrain
from bertwright.text.tokenizer.tokenizer import load_tokenizer

OWN_PAIRS = "minimal_pairs.tsv"
"""The file of our own minimal pairs."""

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


class Measurement(SystemStep):
    """Measures a pre-trained system with one seed."""

    def needs(self, of: Comparison) -> Sequence[SystemStep]:
        return [Pretrain(of.systems[self.entry.is_that_of or self.entry.name], self.seed)]

    def model(self, of: Comparison) -> Model:
        """Return the system."""
        return load(of.run_folder(self.entry, self.seed), of.config.device)


@dataclass(frozen=True)
class HeldOutText(Measurement):
    """The bits per character of the held-out text.

    A masked language model is evaluated on some of the sentences, by their pseudo-log-likelihood.
    """

    measure = "text"
    shown = "held-out text"

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        return bool(entry.scores)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        found = measure_text(self.entry, self.model(of), TextFolders(of.out))
        is_masked, bits = self.entry.scores == "masked", found["bits_per_character"]
        unknown = found["unknown"] / max(1, found["tokens"])
        rows = [
            self.row(metric=f"{'pseudo_' * is_masked}bits_per_character", value=bits),
            self.row(metric="spelling_fraction", value=found["spelling_fraction"]),
            self.row(metric="unknown_fraction", value=unknown),
        ]
        kind = "pseudo-bits" if is_masked else "bits"
        return Done(rows, notes=[f"{self.entry.name}-{self.seed}: {bits:.3f} {kind} a character"])


@dataclass(frozen=True)
class MinimalPairs(Measurement):
    """The accuracy on tables of minimal pairs, and on our own if the text is English."""

    measure = "pairs"
    shown = "minimal pairs"

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        return bool(entry.scores)

    def key(self, of: Comparison) -> Any:
        return {"files": contents(of.config.pairs)}

    def seconds(self, of: Comparison) -> float:
        return OVERHEAD + seconds_of_pairs(of.config.pairs, self.entry.scores == "masked")

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        rows = []
        with as_file(files(__package__) / OWN_PAIRS) as own:
            tables = {path: Path(path).name for path in of.config.pairs}
            if is_english(of):
                tables[str(own)] = ""
            if not tables:
                return Done()
            model = self.model(of)
            for path, test in tables.items():
                accuracy = minimal_pairs([model], path)["accuracy"]
                rows.append(self.row(metric="minimal_pairs", value=accuracy, test=test))
        return Done(rows)


@dataclass(frozen=True)
class WordTests(Measurement):
    """The results on files of similarities and analogies of words."""

    measure = "words"
    shown = "word tests"

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        return bool(config.word_tests) and entry.vectors and not entry.is_that_of

    def key(self, of: Comparison) -> Any:
        return {"files": contents(of.config.word_tests)}

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        table, rows = open_words(of.run_folder(self.entry, self.seed)), []
        for path in of.config.word_tests:
            name = Path(path).name
            try:
                found = evaluate_words(table, path)
            except DataError as error:
                rows.append(self.row(test=name, reason=str(error)))
            else:
                (low, high), score = found.interval, found.score
                metric = found.metric
                rows.append(self.row(test=name, metric=metric, value=score, low=low, high=high))
        return Done(rows)


@dataclass(frozen=True)
class Senses(Measurement):
    """The accuracy of the best layer on our sentences with ambiguous words, if the text is
    English.
    """

    measure = "senses"
    shown = "senses of words"

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        return entry.vectors and not entry.is_that_of

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        if not is_english(of):
            return Done()
        usages = read_usages()
        scores = score_words(vectors_of_usages(self.model(of), usages), usages)
        by_layer = [fmean(layer[:, 0].tolist()) for layer in scores]
        return Done([self.row(metric="senses", value=max(by_layer))])


@dataclass(frozen=True)
class Examples(Measurement):
    """What the system of the first seed makes of text and words that are the same for all systems.

    Its facts are what `examples.examples` returns; it has no rows.
    """

    measure = "examples"
    shown = "examples of what it has learned"

    @classmethod
    def suits(cls, entry: Entry, config: CompareConfig) -> bool:
        return not entry.is_that_of and (bool(entry.scores) or entry.vectors)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        if self.seed != of.config.seed:
            return Done()
        folders = TextFolders(of.out)
        chosen = choose(folders.held_out, load_tokenizer(folders.vocabulary / "words"))
        run = of.run_folder(self.entry, self.seed)
        return Done(facts=examples(run, chosen, self.entry.vectors, of.config.device))


MEASUREMENTS: tuple[type[Measurement], ...] = (
    HeldOutText,
    MinimalPairs,
    WordTests,
    Senses,
    Examples,
)
"""All measurements, in the order in which they are done."""


def contents(paths: Sequence[str | Path]) -> dict[str, str | None]:
    """Return the SHA-256 of each file; None for what is no file, such as standard input."""
    return {str(p): sha256_file(Path(p)) if Path(p).is_file() else None for p in paths}


def measure_text(entry: Entry, model: Model, folders: TextFolders) -> dict[str, Any]:
    """Return the bits per character of a model on the held-out text, as `perplexity` does."""
    corpus, file = WRITTEN, folders.held_out
    with TemporaryDirectory() as folder:
        if entry.scores == "masked":
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


def seconds_of_pairs(paths: Sequence[str], masked: bool) -> float:
    """Return the approximate time of `MinimalPairs` in seconds, including our own pairs.

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


def is_english(of: Comparison) -> bool:
    """Return whether the word vocabulary knows at least `KNOWN` of the words of our tests."""
    words = load_tokenizer(TextFolders(of.out).vocabulary / "words")
    flat, _ = words.encode_sentence_ids([usage.sentence for usage in read_usages()])
    return bool((flat != words.unk_id).mean() >= KNOWN)
