"""A table of named columns, which are found by their purpose.

An option names a column, or numbers it from 1; otherwise it is the column with one of the names
that `NAMES` lists for the purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from bertwright.errors import DataError, listed, shorten
from bertwright.rows.bad_rows import BadRowLog

_GROUPS = {
    "texts": "text sentence text_a | review content question tweet comment document message "
    "utterance | title headline description body query input comment_text",
    # MNLI and SNLI have the five annotators' labels in addition to gold_label
    "labels": "gold_label | label labels | is_duplicate quality target class category "
    "entailment_judgment | entailment_label sentiment intent topic emotion answer | "
    "score rating stars",
    # the first and the second text; the last pair is MRPC's
    "pairs": "sentence1 sentence2 | premise hypothesis | question1 question2 | question sentence | "
    "question passage | text1 text2 | text_a text_b | sentence_a sentence_b | text text2 | "
    "text text_pair | query document | query passage | #1_string #2_string",
    "numbers": "score relatedness_score similarity_score | "
    "label labels target value similarity rating stars | quality",
    "sources": "source | instruction | "
    "mr meaning_representation document article dialogue input text",
    "targets": "target | ref human_reference summary highlights output response headline question",
    "inputs": "input | context",  # of an instruction
    "questions": "question | query text",
    "passages": "context | passage paragraph text2 document",
    "answers": "answers | answer answer_text label",
    "titles": "title",
    "similar pairs": "anchor positive | query pos | query positive_passages | "
    "question positive_ctxs | sent0 sent1 | sentence1 sentence2 | premise hypothesis | "
    "question1 question2 | sentence_a sentence_b | text1 text2 | text_a text_b | text text2 | "
    "text text_pair | query positive | query document | query passage | query answer | "
    "question answer | question passage | question context | question positive | title body | "
    "title text | #1_string #2_string",
    "similarities": "gold_label | score relatedness_score similarity_score | label labels | "
    "is_duplicate quality similarity similar class category entailment_judgment | "
    "entailment_label",
    # SimCSE, FlagEmbedding, Tevatron and DPR have the last four
    "negatives": "negative negatives hard_negative hard_negatives hard_neg neg negative_passages "
    "hard_negative_ctxs",
    "premises": "sent1 ctx_a context article passage premise text | question sentence ctx query",
    "second texts": "sent2 ctx_b text2 | question",
    "choices": "choices endings options | answers candidates",
    "right choices": "label labels gold_label | answer answer_key answerkey",
    "words": "tokens words | token word characters form char",
    "tags": "ner_tags | tags labels label tag | ner pos_tags chunk_tags | pos upos xpos chunk",
    "entities": "entities | spans | label labels",
    "sentences": "sentence_id sentence_# sent_id sentence_number sentence_idx | sentence",
    "documents": "document document_id doc_id",
    "ids": "id index idx guid pair_id pairid qid example_id uid",
    "predictions": "prediction predicted pred | label value answer choice tags | text",
    "translated": "source src source_text src_text source_sentence src_sentence",
    "translations": "target tgt trg target_text tgt_text trg_text target_sentence tgt_sentence "
    "trg_sentence",
    "good sentences": "good sentence_good",
    "bad sentences": "bad sentence_bad",
}
NAMES = {
    purpose: [group.split() for group in names.split("|")] for purpose, names in _GROUPS.items()
}
"""The known names of columns, in groups. The first group with a column in the file decides; two
columns of the same group are ambiguous. Names are compared as `plain` returns them.
"""
_OF_OTHER_FILES = {"translated", "translations", "good sentences", "bad sentences"}
_LABELS_TOO = {"positive", "negative", "negatives", "similar", "neg"}
"""Known names that are also usual labels, so that they do not show that a line is a header."""
_KNOWN = (
    frozenset(
        chain(*chain(*(names for each, names in NAMES.items() if each not in _OF_OTHER_FILES)))
    )
    - _LABELS_TOO
)


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: lower case, with underscores."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_known(name: str) -> bool:
    """Return whether headers of labelled files commonly use this name."""
    name = plain(name)
    return name in _KNOWN or name.rstrip("0123456789") in ("ending", "choice", "option")


class Rows(Protocol):
    """The rows of a table, which are read once."""

    def __call__(
        self, names: Sequence[str], complete: bool = False
    ) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of each row (its line or row, from 1) and its values of some columns.

        A value that a row of JSON lacks is None; with `complete`, such a row is a bad one.
        """
        ...


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    name: str
    columns: list[str]
    """The names in order; `1`, `2`, ... if the file has no header."""
    format: str
    """The name of the format, such as `TSV` or `JSON lines`."""
    rows: Rows
    log: BadRowLog
    sample: Callable[[], list[list[Any]]] = list
    """Returns the values of all columns of the first rows, which `rows` yields again."""
    shown: str = ""
    """How the columns of a file without a header are named, for messages."""

    def has(self, name: str) -> bool:
        """Return whether there is a column with this name, or with this number from 1."""
        named = name in self.columns or plain(name) in map(plain, self.columns)
        return named or (name.isdecimal() and 1 <= int(name) <= len(self.columns))

    def named(self, name: str, option: str) -> str:
        """Return the column that an option names, or numbers from 1 (even if there is a header).
        Capitalization may differ if only one column fits.
        """
        matches = [column for column in self.columns if plain(column) == plain(name)]
        if name in self.columns or len(matches) == 1:
            return self._only(name if name in self.columns else matches[0])
        if name.isdecimal() and 1 <= int(name) <= len(self.columns):
            return self.columns[int(name) - 1]
        raise self.error(f"no column {shorten(name)}", option)

    def _only(self, name: str) -> str:
        """Raise DataError for a name that several columns have."""
        if self.columns.count(name) > 1:
            raise DataError(f"{self.name}: the header names {shorten(name)} twice; rename one")
        return name

    def error(self, what: str, option: str) -> DataError:
        """Return the error for a table that has `what`, with the option that names a column; "" if
        there is none.
        """
        name_it = f"Name one: {option} COLUMN" if option else "Rename one"
        return DataError(
            f"{self.name} has {what}; it has {listed(self.columns)}{self.shown}. {name_it}"
        )

    def known(self, what: str, option: str, used: Sequence[str | None] = ()) -> str | None:
        """Return the column with a known name that is not `used`. It is an error if several fit."""
        for group in chain.from_iterable(NAMES[each] for each in what.split(" or ")):
            matches = [each for each in self.columns if plain(each) in group and each not in used]
            if len({*matches}) > 1:
                raise self.error(f"several columns of {what} ({listed(matches)})", option)
            if matches:
                return self._only(matches[0])
        return None

    def find(
        self, chosen: str | None, what: str, option: str, used: Sequence[str | None] = ()
    ) -> str:
        """Return the chosen column, or the `known` one. It is an error if there is none."""
        column = self.known(what, option, used) if chosen is None else self.named(chosen, option)
        if column is None:
            names = [*chain(*NAMES[what.partition(" or ")[0]])]
            raise self.error(f"no column of {what} ({', '.join(names[:4])}, ...)", option)
        return column

    def id(self, used: Sequence[str]) -> str | None:
        """Return the unused column that identifies rows, or None."""
        free = {plain(name): name for name in reversed(self.columns) if name not in used}
        return next((free[name] for name in NAMES["ids"][0] if name in free), None)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that are not among `names`."""
        return tuple(name for name in self.columns if name and name not in names)
