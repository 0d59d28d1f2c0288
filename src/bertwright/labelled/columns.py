"""Which column holds what: the one that an option names, or one with a known name.

Names are compared in lower case, with spaces and hyphens as underscores. Of each list the first
group with a column in the file decides; two columns of one group are ambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.source import listed

Groups = tuple[tuple[str, ...], ...]

PAIRS: tuple[tuple[str, str], ...] = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("sentence_a", "sentence_b"),
    ("text", "text2"),
    ("text", "text_pair"),
    ("query", "document"),
    ("query", "passage"),
    ("#1_string", "#2_string"),  # MRPC
)
TEXTS: Groups = (
    ("text", "sentence", "text_a"),
    ("review", "content", "question", "tweet", "comment", "document", "message", "utterance"),
    ("comment_text",),
    ("title", "headline", "description", "body", "query", "input"),
)
CLASSES: Groups = (
    ("gold_label",),  # MNLI and SNLI have the five annotators' beside it
    ("label", "labels"),
    ("is_duplicate", "quality", "target", "class", "category", "entailment_judgment"),
    ("entailment_label", "sentiment", "intent", "topic", "emotion", "answer"),
    ("score", "rating", "stars"),
)
NUMBERS: Groups = (
    ("score", "relatedness_score", "similarity_score"),
    ("label", "labels", "target", "value", "similarity", "rating", "stars"),
    ("quality",),
)
SENTENCES: Groups = (
    ("sentence_#", "sentence_id", "sent_id", "sentence_number", "sentence_idx"),
    ("sentence",),
)
"""Which sentence a word is of, where rows are words."""
IDS = ("id", "index", "idx", "guid", "pair_id", "pairid", "qid", "example_id", "uid")
_OTHERS = (*IDS, "context", "sent1", "choices", "tokens", "token", "word", "tag", "ner_tags")
_GENERATED = ("source", "target", "mr", "ref", "summary")
_KNOWN = frozenset([*chain(*TEXTS, *CLASSES, *NUMBERS, *PAIRS, *SENTENCES), *_OTHERS, *_GENERATED])


@dataclass(frozen=True)
class Columns:
    """The columns that options name, or number from 1; None: by their known names."""

    text: str | None = None
    text2: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        names = self.names()
        if len({*names}) != len(names):
            raise DataError(
                f"a column is named twice: {listed(names)}; --text, --text2 and --label "
                "must name different ones"
            )

    def texts(self) -> list[str]:
        """Those of texts that are not None."""
        return [name for name in (self.text, self.text2) if name is not None]

    def names(self) -> list[str]:
        """Those that are not None."""
        return self.texts() + ([] if self.label is None else [self.label])


def plain(name: str) -> str:
    """A name as names are compared."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_known(name: str) -> bool:
    """Whether the name is one that headers have."""
    name = plain(name)
    return name in _KNOWN or name.rstrip("0123456789") in ("ending", "choice", "option")


def with_hint(chosen: Columns, hint: Columns, there: Sequence[str]) -> Columns:
    """The columns chosen, or where none is, those of the training file that are there."""
    names = {*map(plain, there)}
    text, text2, label = chosen.text, chosen.text2, chosen.label
    if not chosen.texts() and names.issuperset(map(plain, hint.texts())):
        text, text2 = hint.text, hint.text2
    if label is None and plain(hint.label or "") in names and hint.label not in (text, text2):
        label = hint.label
    return Columns(text, text2, label)
