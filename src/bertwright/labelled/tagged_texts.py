"""Texts and lists of words with tags, from JSON lines, JSON and Parquet; plain text to be tagged.

Entities may be marked in a text by characters, as annotation tools write them:

| tool | beside `text` |
|---|---|
| doccano | `"label": [[0, 5, "PER"]]` |
| doccano, with relations | `"entities": [{"start_offset": 0, "end_offset": 5, "label": "PER"}]` |
| Prodigy | `"spans": [{"start": 0, "end": 5, "label": "PER"}]`, `"answer": "accept"` |
| spaCy | `"entities": [[0, 5, "PER"]]` |

Words are those that `predict` splits a text into (`split_words`), and are split once more where an
entity begins or ends within one. Tags are IOB2. A word has one tag: of entities that overlap the
longest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

from bertwright.errors import DataError
from bertwright.labelled.columns import SENTENCES, Columns, Groups, find, find_one, plain
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.source import BadRowLog, BadValue, Source, shorten, without_surrogates
from bertwright.labelled.table import Table
from bertwright.labelled.texts import read_text
from bertwright.text.tokenizer.normalize import is_chinese, is_punctuation

WORDS: Groups = (("tokens", "words"), ("token", "word", "characters"))
TEXTS: Groups = (("text", "sentence"),)
TAGS: Groups = (("ner_tags",), ("tags", "labels", "label"), ("ner", "pos_tags", "chunk_tags"))
ENTITIES: Groups = (("entities",), ("spans",), ("label", "labels"))
DOCUMENTS: Groups = (("document", "document_id", "doc_id"),)
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_LABELS = ("label", "type", "tag", "entity")
_COUNTED = "an emoji, which counts as one character; tools in JavaScript count two"
_SOLID = re.compile(r"\S+")
_MARK = re.compile("[\u3001-\u303f\uff01-\uff65]")
"""The blocks of the marks of Chinese and Japanese: 。、「」 and wide or narrow forms."""


def tagging_columns(table: Table, chosen: Columns, *, label: bool) -> Columns:
    """The column of words (or of text, to be split into words) and that of tags.

    Raises:
        DataError: one is missing; lists those there.
    """
    there, file = table.columns, table.name
    marked = find_one(TEXTS, there, file, "--text") if _is_marked(there) else None
    what = "words (tokens, words), nor a text with entities"
    words = find(chosen.text or marked, (*WORDS, *TEXTS), what, "--text", there, file)
    if not label:
        return Columns(words)
    in_text = any(plain(words) in group for group in TEXTS)
    groups = (*ENTITIES, *TAGS) if in_text else TAGS
    what = "entities (entities, spans, label)" if in_text else "tags (ner_tags, tags, labels)"
    return Columns(words, None, find(chosen.label, groups, what, "--label", there, file, [words]))


def _is_marked(columns: Sequence[str]) -> bool:
    """Whether entities are marked in texts, and words, as Prodigy's `tokens`, have no tags."""
    names = {*map(plain, columns)}
    return bool(names & {*chain(*ENTITIES[:2])}) and not names & {*chain(*TAGS)}


def tagging_examples(table: Table, columns: Columns, log: BadRowLog) -> Iterator[TaggingExample]:
    """The sentences of a table; rows of one `document` are each other's context. Where a row has a
    text in place of words, its tags are those of the entities that are marked in it."""
    entities = EntityReader(columns.label or "", log)
    document = find_one(DOCUMENTS, table.columns, table.name, "--text")
    answer = "answer" if columns.label is not None and "answer" in table.columns else None
    names = [*columns.names(), *filter(None, (document, answer))]
    of_sentences = {*map(plain, table.columns)} & {*chain(*SENTENCES)}
    of_words = plain(columns.text or "") in {*chain(*WORDS)}
    documents: dict[str, int] = {}
    for line, values in table.rows(names):
        row = dict(zip(names, values, strict=True))
        number = documents.setdefault(str(row[document]), len(documents)) if document else 0
        try:
            value = row[columns.text or ""]
            given = row[columns.label] if columns.label is not None else None
            if answer and row[answer] in ("reject", "ignore"):  # Prodigy's
                log.leave_out(line, "the annotator did not accept it (answer)")
                continue
            if answer and row[answer] == "accept" and given is None:
                given = []
            if isinstance(value, str) and of_words and of_sentences:
                raise DataError(
                    f"{log.at(line)}: the column {shorten(columns.text)} holds a word of a "
                    "sentence; a word a row is read of CSV and TSV, expected here a list of words"
                )
            if isinstance(value, str) and not _are_words(given):
                text = read_text(value, columns.text or "", log)
                if columns.label is None:
                    yield replace(text_example(text, line), document=number)
                else:
                    yield entities.example(text, given, number, line)
                continue
            words = _strings(value, columns.text or "", log)
            tags = None
            if columns.label is not None:
                tags = _strings(given, columns.label, log)
                if len(tags) != len(words):
                    raise BadValue(
                        "sentence with a ragged line", f"{len(words)} words but {len(tags)} tags"
                    )
        except BadValue as error:
            log.bad(line, error.reason, str(error))
            continue
        yield TaggingExample(words, tags, number, line=line)
    entities.warn()


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, str) for each in value)


def _strings(value: Any, column: str, log: BadRowLog) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadValue(
            "no list of words",
            f"the column {shorten(column)} holds {shorten(value)}; expected a list of strings",
        )
    if not value:
        raise BadValue("empty text", f"the list in the column {shorten(column)} is empty")
    value = [each.get("text") if isinstance(each, dict) else each for each in value]  # Prodigy's
    wrong = [each for each in value if not isinstance(each, str | int) or not str(each).strip()]
    if wrong:
        raise BadValue(
            "sentence with an empty word or tag",
            f"{shorten(wrong[0])} in the list of the column {shorten(column)}; expected words",
        )
    return tuple(without_surrogates(str(each), log) for each in value)


def text_example(text: str, line: int) -> TaggingExample:
    """A text split into words."""
    offsets = tuple(split_words(text))
    words = tuple(text[start:end] for start, end in offsets)
    return TaggingExample(words, None, text=text, offsets=offsets, line=line)


def line_examples(source: Source) -> Iterator[TaggingExample]:
    """Plain text: a sentence a line; a blank line begins a new document."""
    document = 0
    any_before = False
    for number, line in source.lines():
        if not line.strip():
            document += any_before
            any_before = False
            continue
        any_before = True
        yield replace(text_example(line, number), document=document)


class Entity(NamedTuple):
    """Characters `start` to `end` (one after the last) of a text."""

    start: int
    end: int
    label: str


class EntityReader:
    """Reads the entities of one file, and counts what it changes."""

    def __init__(self, column: str, log: BadRowLog) -> None:
        self.column, self.log = column, log
        self.entities = self.within = self.overlapping = self.shifted = 0
        self.first_within = self.first_overlap = ""

    def example(self, text: str, value: Any, document: int, line: int) -> TaggingExample:
        """The example of a text and the entities of its row.

        Raises:
            BadValue: that is no list of entities, or one that is not in the text.
        """
        if not isinstance(value, list):
            raise BadValue(
                "no list of entities",
                f"the column {shorten(self.column)} holds {shorten(value)}; expected a list of "
                '[start, end, "label"]',
            )
        found = [_entity(each, text) for each in value]
        named = [e._replace(label=without_surrogates(e.label, self.log)) for e in found]
        entities = self._apart(named, line)
        ends = sorted({end for each in entities for end in each[:2]})
        words = split_words(text)
        inside = {end for start, stop in words for end in ends if start < end < stop}
        split = [
            pair
            for start, stop in words
            for pair in pairwise([start, *(end for end in ends if start < end < stop), stop])
        ]
        self.entities += len(entities)
        broken = [each for each in entities if inside & {each.start, each.end}]
        if broken and not self.within:
            self.first_within = (
                f"{self.log.unit} {line:,}, {shorten(text[broken[0].start : broken[0].end])}"
            )
        self.within += len(broken)
        self.shifted += any(max(text[: each.end]) > "\uffff" for each in broken)
        return TaggingExample(
            words=tuple(text[start:end] for start, end in split),
            tags=tuple(_tags(split, entities)),
            document=document,
            text=text,
            offsets=tuple(split),
            line=line,
        )

    def warn(self) -> None:
        """Warn of what was changed, when all rows are read."""
        if self.within:
            self.log.warn(
                f"{self.within:,} of {self.entities:,} entities begin or end "
                f"within a word (first in {self.first_within}); their words are split there, "
                "unlike those of a text to predict"
                + (f"; in {self.shifted:,} texts behind {_COUNTED}" if self.shifted else "")
            )
        if self.overlapping:
            self.log.warn(
                f"{self.overlapping:,} entities overlap a longer one and are left "
                f"out, as a word has one tag (first in {self.first_overlap})"
            )

    def _apart(self, entities: Sequence[Entity], line: int) -> list[Entity]:
        """Entities that do not overlap, in order; of those that do the longest, then the first."""
        kept: list[Entity] = []
        for each in sorted({*entities}, key=lambda e: (e.start - e.end, e)):
            if all(each.end <= other.start or other.end <= each.start for other in kept):
                kept.append(each)
            else:
                if not self.overlapping:
                    self.first_overlap = f"{self.log.unit} {line:,}, {shorten(each.label)}"
                self.overlapping += 1
        return sorted(kept)


def _entity(value: Any, text: str) -> Entity:
    """One entity, without white space at its ends.

    Raises:
        BadValue: it has another form, or characters the text has not.
    """
    if isinstance(value, dict):
        given = [
            next((value[name] for name in names if value.get(name) is not None), None)
            for names in (_STARTS, _ENDS, _LABELS)
        ]
    else:
        given = value if isinstance(value, list) else []
    match given:
        case [int(start), int(end), str(label)] if label.strip():
            pass
        case _:
            raise BadValue(
                "entity of a wrong form",
                f'the entity {shorten(value)}; expected [start, end, "label"], or an object with '
                "start, end and label",
            )
    slice_ = text[start:end] if 0 <= start < end <= len(text) else ""
    if not slice_.strip():
        emoji = f". There is {_COUNTED}" if max(text) > "\uffff" else ""
        raise BadValue(
            "entity that is not in the text",
            f"the entity {shorten(value)} has no characters of the text, which has {len(text):,}; "
            f"start counts from 0, end is one after the last{emoji}",
        )
    start += len(slice_) - len(slice_.lstrip())
    return Entity(start, start + len(slice_.strip()), label.strip())


def _tags(words: Sequence[tuple[int, int]], entities: Sequence[Entity]) -> list[str]:
    """IOB2 of words none of which is partly in an entity."""
    tags = ["O"] * len(words)
    for entity in entities:
        letter = "B"
        for number, (start, end) in enumerate(words):
            if entity.start <= start and end <= entity.end:
                tags[number] = f"{letter}-{entity.label}"
                letter = "I"
    return tags


def split_words(text: str) -> list[tuple[int, int]]:
    """The first character of each word and one after its last.

    Split at white space; punctuation around a word, each Chinese character and each mark of Chinese
    and Japanese stand alone. Other punctuation within a word stays: `U.S`, `e-mail`, `don't`,
    `ジョン・スミス`.
    """
    words: list[tuple[int, int]] = []
    for solid in _SOLID.finditer(text):
        for start, end in _apart(text, *solid.span()):
            first, last = start, end
            while first < last and is_punctuation(text[first]):
                first += 1
            while last > first and is_punctuation(text[last - 1]):
                last -= 1
            words.extend((at, at + 1) for at in range(start, first))
            if first < last:
                words.append((first, last))
            words.extend((at, at + 1) for at in range(last, end))
    return words


def _apart(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Parts between characters that always stand alone, and these."""
    parts: list[tuple[int, int]] = []
    open_at = start
    for at in range(start, end):
        if is_chinese(text[at]) or (_MARK.match(text[at]) and is_punctuation(text[at])):
            parts += [(open_at, at), (at, at + 1)] if open_at < at else [(at, at + 1)]
            open_at = at + 1
    return [*parts, (open_at, end)] if open_at < end else parts
