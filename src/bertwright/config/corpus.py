"""The configuration of reading a corpus: how text files become documents of sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import at_least


@dataclass(frozen=True)
class CorpusConfig:
    """What a document is, how it is split into sentences, and how it is cleaned."""

    documents: Literal["blank-line", "file", "line"] = "blank-line"
    """What separates documents in a text file: a blank line, the file, or every line. With
    blank-line, documents of WikiExtractor's files are separated by `<doc ...>` and `</doc>`, and in
    files of the bAbI tasks each question is a document with the sentences before it.
    """
    sentences: Literal["split", "line"] = "split"
    """split: split every line into sentences; line: each line is one sentence."""
    text_column: str = "text"
    """Column of the text in JSONL, CSV, TSV and Parquet files."""
    strip_markup: bool = False
    """Remove tags, web addresses and wiki templates; resolve HTML entities and wiki links."""
    deduplicate: bool = False
    """Leave out documents that are identical to an earlier one."""
    min_characters: int = 0
    """Leave out documents shorter than this many characters."""

    def __post_init__(self) -> None:
        at_least(self, 0, "min_characters")
