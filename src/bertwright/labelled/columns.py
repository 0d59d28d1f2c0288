"""Which column holds what: asked for, or told by its name.

Names are compared in small letters, with blanks and hyphens as underscores. Of each list the first
group with a column in the file decides; two columns of one group are ambiguous.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields

from bertwright.errors import DataError
from bertwright.labelled.bad_rows import listed, shorten

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


@dataclass(frozen=True)
class Columns:
    """The columns that a user asks for; None: find out. In a file without a header they go by
    number, from 1. A label with commas, as `toxic,obscene`, is a column of 0 and 1 for each class.
    """

    text: str | None = None
    text2: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        asked = [value for each in fields(self) if (value := getattr(self, each.name)) is not None]
        if len(set(asked)) != len(asked):
            raise DataError(
                f"a column is asked for twice: {listed(asked)}; --text, --text2 and --label must "
                "name different ones"
            )

    def names(self) -> list[str]:
        """Those asked for."""
        return [name for name in (self.text, self.text2, self.label) if name is not None]


def split_label(label: str, columns: Sequence[str]) -> list[str]:
    """The columns of a label: one, or one for each class where commas stand between names."""
    parts = [part.strip() for part in label.split(",")]
    one = len(parts) == 1 or plain(label) in map(plain, columns)
    return [label] if one else parts


def refuse_some_classes(columns: Sequence[str], hint: Columns, file: str) -> None:
    """Refuse a file that has some, not all, of training's columns of 0 and 1.

    Raises:
        DataError: names those that are missing.
    """
    there = {*map(plain, columns)}
    parts = split_label(hint.label or "", columns)
    lacks = [part for part in parts if plain(part) not in there]
    if 0 < len(lacks) < len(parts):
        raise DataError(
            f"{file} lacks {listed(lacks)} of training's columns {listed(parts)}; add what is "
            "missing, or choose with --label"
        )


def plain(name: str) -> str:
    """A name as names are compared."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def find_asked(name: str, columns: Sequence[str], file: str, option: str) -> str:
    """The column that was asked for; letters may differ in size if one column only fits.

    Raises:
        DataError: there is none; lists what is there.
    """
    if name in columns:
        return name
    near = [column for column in columns if plain(column) == plain(name)]
    if len(near) == 1:
        return near[0]
    close = difflib.get_close_matches(name, columns, n=1)
    meant = f"did you mean {shorten(close[0])}? " if close else ""
    raise DataError(
        f"{file} has no column {shorten(name)}; {meant}it has {listed(columns)}. "
        f"Name one: {option} COLUMN"
    )


def find_one(groups: Groups, columns: Sequence[str], file: str, option: str) -> str | None:
    """The column whose name is known; None if there is none.

    Raises:
        DataError: several are equally good.
    """
    for group in groups:
        found = [column for column in columns if plain(column) in group]
        if len(found) > 1:
            raise DataError(
                f"{file}: {listed(found)} could each be meant; choose with {option} COLUMN. "
                f"The columns are {listed(columns)}"
            )
        if found:
            return found[0]
    return None


def find_id(columns: Sequence[str], used: Sequence[str]) -> str | None:
    """The column that names the rows; None if there is none but those that are `used`."""
    free = [name for name in columns if name not in used]
    return next((name for known in IDS for name in free if plain(name) == known), None)


def find_pair(columns: Sequence[str], file: str) -> tuple[str, str] | None:
    """Two columns that are a known pair; None if there is none.

    Raises:
        DataError: several pairs are there.
    """
    there = {plain(column): column for column in columns}
    found = [(there[a], there[b]) for a, b in PAIRS if a in there and b in there]
    if len(found) > 1:
        raise DataError(
            f"{file} has several pairs of texts ({'; '.join(map(listed, found))}); choose with "
            "--text COLUMN --text2 COLUMN"
        )
    return found[0] if found else None


def find_texts(
    columns: Sequence[str], asked: Columns, kind: str, file: str, *, pair: bool | None, label: bool
) -> Columns:
    """The columns of a classification or regression file.

    Args:
        asked: a text that is asked for alone stands alone, also where its name is half of a pair.
        pair: whether the task has two texts; None: as the file has.
        label: whether a label must be there; without, none is looked for.

    Raises:
        DataError: a column is missing or ambiguous; lists those there and names the option.
    """
    text = text2 = target = None
    labels = [asked.label] if asked.label is not None else []
    if asked.label is not None and label:
        parts = split_label(asked.label, columns)
        labels = [find_asked(part, columns, file, "--label") for part in parts]
        target = ",".join(labels)
    elif label:
        free = [name for name in columns if name not in asked.names()]
        target = find_one(NUMBERS if kind == "regression" else CLASSES, free, file, "--label")
        if target is None:
            raise _missing("label", "--label", file, columns)
        labels = [target]
    rest = [name for name in columns if name not in labels]
    if asked.text2 is not None:
        text2 = find_asked(asked.text2, columns, file, "--text2")
        rest = [name for name in rest if name != text2]
    if asked.text is not None:
        text = find_asked(asked.text, columns, file, "--text")
    elif text2 is None and pair is not False and (both := find_pair(rest, file)):
        text, text2 = both
    else:
        text = _partner(text2, rest) or find_one(TEXTS, rest, file, "--text")
    if text is None:
        raise _missing("text", "--text", file, columns)
    if pair and text2 is None:
        raise _missing("second text", "--text2", file, columns)
    named = [name for name in (text, text2, *(labels if target else ())) if name is not None]
    if len({*named}) < len(named):
        raise DataError(f"{file}: one column is asked for twice; --text, --text2, --label differ")
    return Columns(text, text2, target)


def _partner(text2: str | None, columns: Sequence[str]) -> str | None:
    """The first text beside a known second one."""
    firsts = {first for first, second in PAIRS if text2 is not None and second == plain(text2)}
    found = [column for column in columns if plain(column) in firsts]
    return found[0] if len(found) == 1 else None


def _missing(what: str, option: str, file: str, columns: Sequence[str]) -> DataError:
    each = "; one of 0 and 1 for each class: --multi-label --label A,B,C" if what == "label" else ""
    return DataError(
        f"{file}: no column is known to be the {what}; it has {listed(columns)}. "
        f"Name one: {option} COLUMN{each}"
    )
