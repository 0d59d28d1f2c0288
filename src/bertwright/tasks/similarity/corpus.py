"""Make pairs for training sentence vectors from plain text, without labels.

- `neighbours`: two consecutive sentences of a document are a positive pair. If a document begins
  with a title, the title and the sentences after it are a pair too (Logeswaran and Lee 2018, "An
  efficient framework for learning sentence representations"; Izacard et al. 2022, "Contriever").
- `dropout`: a sentence is paired with itself, encoded with another dropout mask (Gao et al. 2021,
  "SimCSE", section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import ConfigError, DataError
from bertwright.rows.read import MemoryRows
from bertwright.tasks.similarity.options import SimilarityOptions
from bertwright.text.corpus.read import ENDS, LONGEST_TITLE, read_documents
from bertwright.text.corpus.report import CorpusReport

MOST_PAIRS = 1_000_000
"""The maximum number of pairs of a corpus, which are held in memory; later pairs are left out."""
LEAST_CHARACTERS = 12
"""The minimum length of a sentence. Shorter ones are left out, because they are mostly headings or
remains of markup.
"""
BODY = 3
"""The number of sentences that are paired with a title."""

How = Literal["neighbours", "dropout"]


def corpus_rows(
    options: SimilarityOptions, has_dev: bool, say: Callable[[str], None]
) -> MemoryRows:
    """Return the pairs of a corpus as rows, which include the number of their document."""
    reading = CorpusConfig(documents=options.corpus_documents, deduplicate=True)
    report = CorpusReport()
    documents = list(_long_enough(read_documents(options.corpus, reading, report)))
    several = sum(len(sentences) > 1 for sentences in documents)
    how: How = "neighbours" if 2 * several >= len(documents) else "dropout"
    if options.corpus_pairs != "auto":
        how = options.corpus_pairs
    if how == "dropout" and not has_dev:
        raise ConfigError(
            f"{', '.join(options.corpus)}: pairs of a sentence and itself (dropout) cannot be "
            "evaluated on; pass --dev FILE with scored or labelled pairs, or use documents of "
            "several sentences (--corpus-pairs neighbours)"
        )
    make = _neighbours if how == "neighbours" else _itself
    pairs = (
        {"anchor": first, "positive": second, "document_id": str(number)}
        for number, sentences in enumerate(documents)
        for first, second in make(sentences)
    )
    rows = list(islice(pairs, MOST_PAIRS))
    if not rows:
        raise DataError(
            f"{', '.join(options.corpus)}: no document has two sentences of {LEAST_CHARACTERS} "
            "characters or more; documents are separated by --corpus-documents "
            f"{options.corpus_documents}; --corpus-pairs dropout takes single sentences"
        )
    words = "that follow each other" if how == "neighbours" else "under two dropout masks"
    say(f"corpus: {len(documents):,} documents, {len(rows):,} pairs of sentences {words} ({how})")
    if len(rows) == MOST_PAIRS:
        say(f"warning: the corpus has more; the first {MOST_PAIRS:,} are used")
    return MemoryRows(f"the corpus ({len(rows):,} pairs)", rows)


def _long_enough(documents: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield the documents without their short sentences, except for titles."""
    for sentences in documents:
        kept = [
            sentence
            for number, sentence in enumerate(sentences)
            if len(sentence) >= LEAST_CHARACTERS or (number == 0 and _is_title(sentence))
        ]
        if kept:
            yield kept


def _is_title(sentence: str) -> bool:
    return len(sentence) < LONGEST_TITLE and sentence[-1] not in ENDS


def _neighbours(sentences: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the title with the sentences after it, and pairs of consecutive other sentences."""
    if len(sentences) > 1 and _is_title(sentences[0]):
        yield sentences[0], " ".join(sentences[1 : 1 + BODY])
        sentences = sentences[1:]
    for number in range(0, len(sentences) - 1, 2):
        if sentences[number] != sentences[number + 1]:
            yield sentences[number], sentences[number + 1]


def _itself(sentences: list[str]) -> Iterator[tuple[str, str]]:
    for sentence in sentences:
        yield sentence, sentence
