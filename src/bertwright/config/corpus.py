"""How text files become documents of sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import at_least


@dataclass(frozen=True)
class CorpusConfig:
    """What a document is, how it is cut into sentences and how it is cleaned."""

    documents: Literal["blank-line", "file", "line"] = "blank-line"
    """What separates documents in a text file: a blank line, the file, or every line."""
    sentences: Literal["split", "line"] = "split"
    """`split` finds sentences in every line; `line` takes each line as one sentence."""
    text_column: str = "text"
    """The column of text in JSONL, CSV, TSV and Parquet."""
    split_name: str = "train"
    """The split to read of a `datasets` folder or name."""
    errors: Literal["replace", "refuse"] = "replace"
    """What to do with bytes that are not UTF-8: replace and count them, or stop."""
    normalize_unicode: bool = False
    """Compose characters (NFC), repair mojibake and drop control characters."""
    boilerplate: bool = False
    """Leave out lines that repeat across documents, and menu and copyright lines."""
    deduplicate: Literal["none", "exact", "near"] = "none"
    """Leave out documents that came before, exactly or nearly."""
    min_characters: int = 0
    """Leave out documents shorter than this many characters."""

    def __post_init__(self) -> None:
        at_least(self, 0, "min_characters")
