"""Which column holds what: the one that an option names, or one with a known name.

Names are compared in lower case, with spaces and hyphens as underscores. Of each list the first
group with a column in the file decides; two columns of one group are ambiguous.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.source import listed, shorten

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
    """The columns that options name; None: by their known names. In a file without a header they
    go by number, from 1. A label with commas, as `toxic,obscene`, is a column of 0 and 1 for each
    class.
    """

    text: str | None = None
    text2: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if len({*self.names()}) != len(self.names()):
            raise DataError(
                f"a column is named twice: {listed(self.names())}; --text, --text2 and --label "
                "must name different ones"
            )

    def names(self) -> list[str]:
        """Those that are not None."""
        return [v for each in fields(self) if (v := getattr(self, each.name)) is not None]


def plain(name: str) -> str:
    """A name as names are compared."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_known(name: str) -> bool:
    """Whether the name is one that headers have."""
    name = plain(name)
    return name in _KNOWN or name.rstrip("0123456789") in ("ending", "choice", "option")


def split_label(label: str, columns: Sequence[str]) -> list[str]:
    """The columns of a label: one, or one for each class where commas stand between names."""
    parts = [part.strip() for part in label.split(",")]
    one = len(parts) == 1 or plain(label) in map(plain, columns)
    return [label] if one else parts


def with_hint(chosen: Columns, hint: Columns, there: Sequence[str]) -> Columns:
    """The columns chosen, or where none is, those of the training file that are there."""
    names = {plain(name) for name in there}
    texts = [name for name in (hint.text, hint.text2) if name is not None]
    text, text2, label = chosen.text, chosen.text2, chosen.label
    if text is None and text2 is None and texts and names.issuperset(map(plain, texts)):
        text, text2 = hint.text, hint.text2
    if label is None and hint.label is not None:
        parts = split_label(hint.label, there)
        if names.issuperset(map(plain, parts)) and not {text, text2} & {*parts}:
            label = hint.label
    return Columns(text, text2, label)


def find_chosen(name: str, columns: Sequence[str], file: str, option: str) -> str:
    """The column that an option names; letters may differ in case if one column only fits.

    Raises:
        DataError: there is none; lists what is there.
    """
    near = [column for column in columns if plain(column) == plain(name)]
    if name in columns or len(near) == 1:
        return name if name in columns else near[0]
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


def find(
    chosen: str | None,
    groups: Groups,
    what: str,
    option: str,
    columns: Sequence[str],
    file: str,
    used: Sequence[str | None] = (),
) -> str:
    """The column chosen, or one that is not `used` and whose name is known.

    Raises:
        DataError: there is none, or several are equally good.
    """
    if chosen is not None:
        return find_chosen(chosen, columns, file, option)
    found = find_one(groups, [name for name in columns if name not in used], file, option)
    if found is None:
        raise DataError(
            f"{file} has no column of {what}; it has {listed(columns)}. Name one: {option} COLUMN"
        )
    return found


def find_id(columns: Sequence[str], used: Sequence[str]) -> str | None:
    """The column that names the rows; None if there is none but those that are `used`."""
    free = [name for name in columns if name not in used]
    return next((name for known in IDS for name in free if plain(name) == known), None)


def find_texts(
    columns: Sequence[str], chosen: Columns, kind: str, file: str, *, pair: bool | None, label: bool
) -> Columns:
    """The columns of a classification or regression file.

    Args:
        columns: all of the file.
        chosen: a text that is chosen alone stands alone, also where its name is half of a pair.
        kind: of the task.
        file: its name.
        pair: whether the task has two texts; None: as the file has.
        label: whether a label must be there; without, none is looked for.

    Raises:
        DataError: a column is missing or ambiguous; lists those there and names the option.
    """
    labels: list[str] = []
    if label and chosen.label is not None:
        parts = split_label(chosen.label, columns)
        labels = [find_chosen(part, columns, file, "--label") for part in parts]
    elif label:
        groups = NUMBERS if kind == "regression" else CLASSES
        what = "labels (of one with 0 and 1 for each class: --multi-label --label A,B,C)"
        labels = [find(None, groups, what, "--label", columns, file, chosen.names())]
    elif chosen.label is not None:
        labels = [chosen.label]
    rest = [name for name in columns if name not in labels]
    text2 = None
    if chosen.text2 is not None:
        text2 = find_chosen(chosen.text2, columns, file, "--text2")
        rest = [name for name in rest if name != text2]
    pairs = [] if pair is False or chosen.text is not None else _pairs(rest, text2)
    if len(pairs) > 1:
        raise DataError(
            f"{file} has several pairs of texts ({'; '.join(map(listed, pairs))}); choose with "
            "--text COLUMN --text2 COLUMN"
        )
    if pairs:
        text, text2 = pairs[0][0], text2 or pairs[0][1]
    else:
        used = [*labels, text2]
        text = find(chosen.text, TEXTS, "texts", "--text", columns, file, used)
    if pair and text2 is None:
        raise DataError(
            f"{file} has no column of second texts; it has {listed(columns)}. "
            "Name one: --text2 COLUMN"
        )
    named = [text, *([text2] if text2 else []), *(labels if label else [])]
    if len({*named}) < len(named):
        raise DataError(f"{file}: one column is named twice; --text, --text2, --label differ")
    return Columns(text, text2, ",".join(labels) if label else None)


def _pairs(columns: Sequence[str], text2: str | None) -> list[tuple[str, str]]:
    """Columns that are a known pair; with a second text given, those it may stand beside."""
    there = {plain(column): column for column in columns}
    if text2 is not None:
        return [(there[a], text2) for a, b in PAIRS if a in there and b == plain(text2)]
    return [(there[a], there[b]) for a, b in PAIRS if a in there and b in there]
