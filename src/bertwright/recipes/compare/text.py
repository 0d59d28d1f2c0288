"""Prepare the text of a comparison: training text, held-out text, vocabularies and shards.

The corpus is read once and written with one sentence per line. Shards and vocabularies do not
include held-out documents, so these are new to every system, even to word vectors, whose training
holds out no text itself. The folder has:

| path | content |
|---|---|
| `text/train.txt`, `text/held-out.txt` | the training text and the held-out text |
| `text/held-out-sentences.txt` | sentences for masked language models |
| `text/words.txt` | distinct words of the training text, for the spelling of unknown words |
| `vocabulary/wordpieces`, `vocabulary/words` | the two vocabularies |
| `shards/wordpieces`, `shards/words` | the training text, in each vocabulary |
| `shards/wordpiece-pairs`, `shards/word-pairs` | the translations, in each vocabulary |
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.arrays import Bools, Float64s, Int64s
from bertwright.atomic import MANIFEST, atomic_file
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.build import build_shards
from bertwright.data.parallel.build import build_parallel, read_pairs
from bertwright.data.randomness import make_key, mix, uniform
from bertwright.data.split import FEW_HELD_OUT, GAP, LEAST_BEFORE, LEAST_HELD_OUT
from bertwright.errors import DataError
from bertwright.inference.spelling import MOST_WORDS, Spelling
from bertwright.progress import OnProgress, silent
from bertwright.recipes.compare.steps import Comparison, Done, Step
from bertwright.report.numbers import count
from bertwright.rows.open import size_on_disk
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.read import read_documents
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.train import count_corpus, train_on_counts

WRITTEN = CorpusConfig(documents="blank-line", sentences="line")
"""The format of the text files that are written here."""
MOST_HELD_OUT = 300_000
"""The maximum number of characters of held-out text. A language model reads it in some seconds."""
MASKED_SENTENCES = 150
"""The maximum number of held-out sentences for masked language models, which read a sentence once
for each token.
"""
FEWEST_WORDS = 2_000
"""The minimum number of words of training text for a comparison."""
FEW_BYTES = 8_000_000
"""Smaller texts are counted and encoded in one process, because starting others takes longer."""


class TextFolders:
    """The paths of the text of a comparison."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text, self.vocabulary = folder / "text", folder / "vocabulary"
        self.shards = folder / "shards"
        self.train, self.held_out = self.text / "train.txt", self.text / "held-out.txt"
        self.sentences = self.text / "held-out-sentences.txt"
        self.words = self.text / "words.txt"

    def spelling(self) -> Spelling:
        """Return the character model of the training text."""
        return Spelling(self.words.read_text(encoding="utf-8").split("\n"))


def reading_seconds(of: Comparison) -> float:
    """Return the approximate time of reading the corpus once in seconds."""
    return 2 + (size_on_disk(find_files(of.inputs)) or 0) / 2e6


@dataclass(frozen=True)
class WriteText(Step):
    """Write the training text and the held-out text."""

    name = "text"
    what = "Reading the corpus"

    def seconds(self, of: Comparison) -> float:
        return reading_seconds(of)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        folders = TextFolders(of.out)
        found = write_text(of.inputs, of.reading, folders, of.config.held_out, of.most_held_out)
        note = (
            f"text: {count(found['train']['characters'])} characters to train on, "
            f"{found['held_out']['characters']:,} held out"
        )
        files = [folders.train, folders.held_out, folders.sentences]
        return Done(facts=found, files=files, notes=[note])


@dataclass(frozen=True)
class TrainVocabularies(Step):
    """Train the wordpiece and the word vocabulary."""

    name = "vocabulary"
    what = "Training the vocabularies"

    def seconds(self, of: Comparison) -> float:
        return 10 + reading_seconds(of)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        folders = TextFolders(of.out)
        found = train_vocabularies(folders, of.config, of.settings["lowercase"])
        case = "lower-cased" if found["lowercase"] else "cased"
        note = (
            f"vocabularies, {case}: {found['wordpieces']['size']:,} wordpieces, "
            f"{found['words']['size']:,} words ({found['words']['unknown']:.1%} of text unknown)"
        )
        inside = sorted(each for each in folders.vocabulary.rglob("*") if each.is_file())
        return Done(facts=found, files=[folders.words, *inside], notes=[note])


@dataclass(frozen=True)
class WriteShards(Step):
    """Write the shards of one kind of data (`systems.Data`)."""

    data: str

    @property
    def name(self) -> str:
        return f"shards/{self.data}"

    @property
    def what(self) -> str:
        return f"Writing shards of {self.data}"

    def seconds(self, of: Comparison) -> float:
        return 1 + reading_seconds(of)

    def do(self, of: Comparison, say: Callable[[str], None]) -> Done:
        folders = TextFolders(of.out)
        found = build(folders, self.data, of.config.parallel)
        return Done(facts=found, files=[folders.shards / self.data / MANIFEST])


def write_text(
    inputs: Sequence[str],
    reading: CorpusConfig,
    folders: TextFolders,
    fraction: float,
    most: int | None = MOST_HELD_OUT,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Write the training text and the held-out text, and return their sizes.

    Held-out text is written only up to about `MOST_HELD_OUT` characters; the rest of what is held
    out is not used.

    Args:
        inputs: the files of the corpus.
        reading: how documents are read.
        folders: the paths to write to.
        fraction: the fraction of the text to hold out.
        most: the maximum number of characters to hold out; None: no limit.
        on_progress: called with the position in the corpus and its size.

    Raises:
        DataError: there is no document, or there are too few to hold any out.
    """
    folders.text.mkdir(parents=True, exist_ok=True)
    whole = folders.text / ".all.txt"
    report, size = CorpusReport(), size_on_disk(find_files(inputs))
    sizes: list[tuple[int, int]] = []
    with whole.open("w", encoding="utf-8", newline="\n", errors="replace") as file:
        for sentences in read_documents(inputs, reading, report):
            sizes.append((len(sentences), sum(map(len, sentences))))
            file.write("\n".join(sentences) + "\n\n")
            on_progress(report.position, size)
    held_out = _held_out(np.array(sizes), fraction, most, ", ".join(inputs))
    counts = {"train": [0, 0, 0], "held_out": [0, 0, 0]}
    with (
        atomic_file(folders.train, overwrite=True) as train,
        atomic_file(folders.held_out, overwrite=True) as held,
        atomic_file(folders.sentences, overwrite=True) as few,
    ):
        left = MASKED_SENTENCES
        for (start, stop), sentences in zip(held_out, _documents(whole), strict=True):
            parts = {"train": sentences[:start], "held_out": sentences[stop:]}
            for (name, part), written in zip(parts.items(), (train, held), strict=True):
                if name == "held_out" and counts[name][2] >= MOST_HELD_OUT:
                    continue  # enough is written; the rest is not used
                if part:
                    written.write("\n".join(part) + "\n\n")
                    own = sum(map(len, part))
                    counts[name] = [
                        n + m for n, m in zip(counts[name], (1, len(part), own), strict=True)
                    ]
            for sentence in [s for s in parts["held_out"] if 20 <= len(s) <= 200][:left]:
                few.write(sentence + "\n")
                left -= 1
    whole.unlink()
    names = "documents", "sentences", "characters"
    return {
        "files": list(inputs),
        **{part: dict(zip(names, own, strict=True)) for part, own in counts.items()},
    }


def _held_out(sizes: Int64s, fraction: float, most: int | None, name: str) -> list[tuple[int, int]]:
    """Return where the training part of each document ends and where its held-out part begins, in
    sentences.

    Whole documents are held out, selected by the draws of `data/split.py`. With `most`, a document
    that is longer than what is still wanted is skipped. If few documents are selected, the ends of
    all documents that are long enough are held out instead, unless these have fewer characters than
    the selected documents.

    Args:
        sizes: the numbers of sentences and characters of each document, `[D, 2]`.
        fraction: the fraction of the text to hold out.
        most: the maximum number of characters to hold out; None: no limit.
        name: the name of the corpus in the message of the error.

    Raises:
        DataError: nothing can be held out.
    """
    sentences, characters = sizes.T
    count = len(sizes)
    found = [(int(n), int(n)) for n in sentences]
    held = held_out_documents(count, fraction)
    if most is not None:
        left = min(float(most), fraction * float(characters.sum()))
        fraction = left / max(1.0, float(characters.sum()))
        held[:] = False
        for row in np.argsort(_draws(count)).tolist():
            if characters[row] <= left:
                held[row], left = True, left - characters[row]
    ends = np.maximum(LEAST_HELD_OUT, np.ceil(sentences * fraction)).astype(int)
    long_enough = sentences >= LEAST_BEFORE + ends
    of_ends = (characters * ends / np.maximum(1, sentences))[long_enough].sum()
    if held.sum() >= FEW_HELD_OUT or (held.any() and characters[held].sum() >= of_ends):
        return [(0, 0) if out else ends for out, ends in zip(held, found, strict=True)]
    if long_enough.any():
        return [
            (int(n - end - GAP), int(n - end)) if fits else (int(n), int(n))
            for n, end, fits in zip(sentences, ends, long_enough, strict=True)
        ]
    if count >= 2:
        for row in np.argsort(_draws(count))[: max(1, math.ceil(count * fraction))].tolist():
            found[row] = (0, 0)
        return found
    raise DataError(
        f"{name} has one document of {int(sentences[0]):,} sentences, so nothing can be held out "
        f"to measure on; expected several documents, or one of {LEAST_BEFORE + LEAST_HELD_OUT} "
        "sentences or more: is the blank line between documents missing (--documents line|file)?"
    )


def _draws(count: int) -> Float64s:
    """Return a random number between 0 and 1 for each document, always the same ones."""
    return uniform(mix(make_key("validation"), np.arange(count)))


def held_out_documents(count: int, fraction: float) -> Bools:
    """Return a mask of the documents that are held out if there are enough documents."""
    held: Bools = _draws(count) < fraction
    return held


def _documents(path: Path) -> Iterator[list[str]]:
    """Yield the documents of the file that `write_text` writes first."""
    sentences: list[str] = []
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            if line := line.rstrip("\n"):
                sentences.append(line)
            else:
                yield sentences
                sentences = []


def train_vocabularies(
    folders: TextFolders,
    config: CompareConfig,
    lowercase: bool,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Train the wordpiece and the word vocabulary, and return their sizes.

    The words of the training text are counted once for both. If there are translations, they are
    counted too.

    Raises:
        DataError: the text has too few words.
        ConfigError: the vocabulary is too small for its alphabet.
    """
    inputs = [str(folders.train)]
    if config.parallel:
        path = folders.text / "parallel.txt"
        source, target = map(Path, config.parallel)
        with atomic_file(path, overwrite=True) as file:
            for _, *texts in read_pairs(source, target):
                file.write("\n".join(filter(None, texts)) + "\n")
        inputs += 4 * [str(path)]  # they are short, so their words count four times
    few = sum(Path(each).stat().st_size for each in inputs) < FEW_BYTES
    wanted = TokenizerConfig(
        vocab_size=config.vocab_size, lowercase=lowercase, workers=1 if few else 0
    )
    counted = count_corpus(inputs, WRITTEN, wanted, CorpusReport(), on_progress)
    if counted.words < FEWEST_WORDS:
        raise DataError(
            f"the training text has {counted.words:,} words; expected {FEWEST_WORDS:,} or more, "
            "and a million for figures that mean something: give more text"
        )
    of_words = replace(wanted, algorithm="word", vocab_size=config.word_vocab_size)
    found: dict[str, Any] = {"lowercase": lowercase, "words_of_text": counted.words}
    for name, each in (("wordpieces", wanted), ("words", of_words)):
        tokenizer, figures = train_on_counts(counted, each)
        folder = folders.vocabulary / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        tokenizer.save(folder)
        unknown = figures["unknown_share"]
        found[name] = {"size": tokenizer.vocab_size, "unknown": unknown}
    rare = sorted(counted.counts, key=lambda word: (counted.counts[word], word))
    with atomic_file(folders.words, overwrite=True) as file:
        file.write("\n".join(islice(rare, MOST_WORDS)))
    return found


def build(
    folders: TextFolders, data: str, parallel: Sequence[str], on_progress: OnProgress = silent
) -> dict[str, Any]:
    """Write the shards of one kind of data (`systems.Data`), and return their counts."""
    out = folders.shards / data
    vocabulary = folders.vocabulary / ("words" if data.startswith("word-") else "wordpieces")
    vocabulary = folders.vocabulary / data if data in ("words", "wordpieces") else vocabulary
    if out.exists() and not (out / MANIFEST).is_file():
        shutil.rmtree(out)
    if data.endswith("pairs"):
        source, target = parallel
        manifest = build_parallel(
            source, target, out, vocabulary, overwrite=True, on_progress=on_progress
        )
    else:
        few = folders.train.stat().st_size < FEW_BYTES
        manifest = build_shards(
            [str(folders.train)],
            out,
            vocabulary,
            WRITTEN,
            workers=1 if few else 0,
            overwrite=True,
            on_progress=on_progress,
        )
    counts = manifest["counts"]
    return {name: counts[name] for name in ("documents", "sentences", "tokens", "unknown_tokens")}
