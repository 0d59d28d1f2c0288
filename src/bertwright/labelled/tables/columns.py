"""Find the column for each purpose: the one that an option names, or one with a known name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from bertwright.errors import DataError, listed

_NAMES = {
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
}
NAMES = {what: [group.split() for group in names.split("|")] for what, names in _NAMES.items()}
"""The known names of columns, in groups. The first group with a column in the file decides; two
columns of the same group are ambiguous. Names are compared as `plain` returns them.
"""
_LABELS_TOO = {"positive", "negative", "negatives", "similar", "neg"}
"""Known names that are also usual labels, so that they do not show that a line is a header."""
_KNOWN = frozenset(chain(*chain(*NAMES.values()))) - _LABELS_TOO


@dataclass(frozen=True)
class Columns:
    """The columns that options name, or number from 1. None: they are found by their known
    names.
    """

    text: str | None = None
    text2: str | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
    """Several columns in place of `label`: one for each class; or the names of the classes, if one
    column has lists of 0 and 1.
    """
    negatives: tuple[str, ...] = ()
    """Columns of hard negatives, each a text or a list of texts (similarity)."""

    def __post_init__(self) -> None:
        names = self.names()
        if len({*names}) != len(names):
            raise DataError(f"a column is named twice: {listed(names)} (--text, --text2, --label)")

    def texts(self) -> list[str]:
        """Return the columns of texts that are not None."""
        return [name for name in (self.text, self.text2) if name is not None]

    def names(self) -> list[str]:
        """Return all columns that are not None."""
        label = [] if self.label is None else [self.label]
        return [*self.texts(), *label, *self.labels, *self.negatives]

    def or_of(self, hint: Columns, there: Sequence[str]) -> Columns:
        """Return these columns, completed with those of the training file that are among
        `there`.
        """
        names = {*map(plain, there)}
        text, text2, label = self.text, self.text2, self.label
        if not self.texts() and names.issuperset(map(plain, hint.texts())):
            text, text2 = hint.text, hint.text2
        label_is_free = label is None and not self.labels
        if label_is_free and plain(hint.label or "") in names and hint.label not in (text, text2):
            label = hint.label
        labels = self.labels
        if label is None and not labels and names.issuperset(map(plain, hint.labels)):
            labels = hint.labels
        negatives = self.negatives
        if not negatives and names.issuperset(map(plain, hint.negatives)):
            negatives = hint.negatives
        return Columns(text, text2, label, labels, negatives)


def make_columns(
    text: str | None,
    text2: str | None,
    label: str | Sequence[str] | None,
    negatives: Sequence[str] = (),
) -> Columns:
    """Return the columns that options name; `label` is one column or several."""
    several = (label,) if isinstance(label, str) else tuple(label or ())
    if len(several) == 1:
        return Columns(text, text2, several[0], (), tuple(negatives))
    return Columns(text, text2, None, several, tuple(negatives))


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: lower case, with underscores."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_known(name: str) -> bool:
    """Return whether headers commonly use this name."""
    name = plain(name)
    return name in _KNOWN or name.rstrip("0123456789") in ("ending", "choice", "option")
