"""Texts and lists of words with tags, from JSON lines, JSON and Parquet; plain text to be tagged.

Entities may be marked in a text by characters, as doccano, Prodigy and spaCy write them. Words are
those that `predict` splits a text into (`split_words`), and are split once more where an entity
begins or ends within one. Tags are IOB2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from bertwright.labelled.columns import Columns, Groups, plain
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.source import BadValue, Source, shorten
from bertwright.labelled.table import Row, Table, read_text
from bertwright.text.tokenizer.normalize import is_chinese, is_punctuation

WORDS: Groups = (("tokens", "words"), ("token", "word", "characters"))
TEXTS: Groups = (("text", "sentence"),)
TAGS: Groups = (("ner_tags",), ("tags", "labels", "label"), ("ner", "pos_tags", "chunk_tags"))
ENTITIES: Groups = (("entities",), ("spans",), ("label", "labels"))
DOCUMENTS: Groups = (("document", "document_id", "doc_id"),)
_FIELDS = (("start", "start_offset"), ("end", "end_offset"), ("label", "type", "tag", "entity"))
_SOLID = re.compile(r"\S+")
_MARK = re.compile("[\u3001-\u303f\uff01-\uff65]")
"""The blocks of the marks of Chinese and Japanese: 。、「」 and wide or narrow forms."""


def tagging_columns(table: Table, chosen: Columns, *, label: bool) -> Columns:
    """The column of words (or of text, to be split into words) and that of tags."""
    names = {*map(plain, table.columns)}
    # where entities are marked in texts, words, as Prodigy's `tokens`, have no tags
    marked = names & {*chain(*ENTITIES[:2])} and not names & {*chain(*TAGS)}
    groups = (*TEXTS, *WORDS) if marked else (*WORDS, *TEXTS)
    what = "words (tokens, words), nor a text with entities"
    words = table.find(chosen.text, groups, what, "--text")
    if not label:
        return Columns(words)
    in_text = any(plain(words) in group for group in TEXTS)
    groups = (*ENTITIES, *TAGS) if in_text else TAGS
    what = "entities (entities, spans, label)" if in_text else "tags (ner_tags, tags, labels)"
    return Columns(words, None, table.find(chosen.label, groups, what, "--label", [words]))


def tagging_examples(table: Table, columns: Columns) -> Iterator[TaggingExample]:
    """The sentences of a table; rows of one `document` are each other's context. Where a row has a
    text in place of words, its tags are those of the entities that are marked in it."""
    log, within = table.log, list[int]()
    document = table.known(DOCUMENTS, "--text")
    answer = "answer" if columns.label is not None and "answer" in table.columns else None
    documents: dict[str, int] = {}

    def make(row: Row, id_: str, line: int) -> TaggingExample | None:
        number = documents.setdefault(str(row[document]), len(documents)) if document else 0
        value, given = row[columns.text], row.get(columns.label)
        if answer and row[answer] in ("reject", "ignore"):  # Prodigy's
            log.leave_out(line, "the annotator did not accept it (answer)")
            return None
        are_tags = isinstance(given, list) and any(isinstance(each, str) for each in given)
        if isinstance(value, str) and not are_tags:
            example = text_example(read_text(row, columns.text), line)
            if columns.label is not None:
                accepted = given is None and answer and row[answer] == "accept"
                entities = [] if accepted else given
                example, is_split = _marked(example, entities, columns.label)
                if is_split:
                    within.append(line)
            return replace(example, document=number, id=id_)
        words, tags = _strings(value, columns.text), None
        if columns.label is not None:
            tags = _strings(given, columns.label)
            if len(tags) != len(words):
                came = f"{len(words)} words, {len(tags)} tags"
                raise BadValue("sentence with a ragged line", came, "a tag a word")
        return TaggingExample(words, tags, number, id=id_, line=line)

    names = [*columns.names(), *(name for name in (document, answer) if name)]
    yield from table.examples(names, make)
    if within:
        log.warn(
            f"entities of {len(within):,} texts begin or end within a word (first in {log.unit} "
            f"{within[0]:,}), which is split there, unlike those of a text to predict. Characters "
            "are counted as in Python, an emoji as one"
        )


def _strings(value: Any, column: str | None) -> tuple[str, ...]:
    in_column = f"in the column {shorten(column)}"
    if not isinstance(value, list):
        raise BadValue("no list of words", f"{shorten(value)} {in_column}", "a list of strings")
    if not value:
        raise BadValue("empty text", f"a list {in_column}", "words")
    wrong = [each for each in value if not isinstance(each, str | int) or not str(each).strip()]
    if wrong:
        came = f"{shorten(wrong[0])} {in_column}"
        raise BadValue("sentence with an empty word or tag", came, "words")
    return tuple(map(str, value))


def text_example(text: str, line: int) -> TaggingExample:
    """A text split into words."""
    offsets = tuple(split_words(text))
    words = tuple(text[start:end] for start, end in offsets)
    return TaggingExample(words, None, text=text, offsets=offsets, line=line)


def line_examples(source: Source) -> Iterator[TaggingExample]:
    """Plain text: a sentence a line."""
    return (text_example(line, number) for number, line in source.lines() if line.strip())


Entity = tuple[int, int, str]
"""The first character, one after the last, and the label."""


def _marked(example: TaggingExample, value: Any, column: str) -> tuple[TaggingExample, bool]:
    """The example of a text with the tags of the entities of its row, and whether one of them
    begins or ends within a word."""
    text = example.text or ""
    if not isinstance(value, list):
        came = f"{shorten(value)} in the column {shorten(column)}"
        raise BadValue("no list of entities", came, 'a list of [start, end, "label"]')
    entities = sorted({_entity(each, text) for each in value})
    for (_, end, _), (start, stop, _) in pairwise(entities):
        if start < end:
            raise BadValue("entities that overlap", shorten(text[start:stop]), "one tag a word")
    ends = sorted({end for each in entities for end in each[:2]})
    words = [
        word
        for start, stop in example.offsets or ()
        for word in pairwise([start, *(end for end in ends if start < end < stop), stop])
    ]
    tags = ["O"] * len(words)
    for number, (at, _) in enumerate(words):
        for start, end, label in entities:
            if start <= at < end:
                tags[number] = f"{'B' if at == start else 'I'}-{label}"
    spelled = tuple(text[start:end] for start, end in words)
    is_split = len(words) > len(example.offsets or ())
    return replace(example, words=spelled, tags=tuple(tags), offsets=tuple(words)), is_split


def _entity(value: Any, text: str) -> Entity:
    """One entity, without white space at its ends."""
    given = value
    if isinstance(value, dict):
        given = [next((value[name] for name in names if name in value), None) for names in _FIELDS]
    match given:
        case [int(start), int(end), str(label)] if label.strip():
            pass
        case _:
            expected = '[start, end, "label"], or an object with start, end and label'
            raise BadValue("entity of a wrong form", shorten(value), expected)
    slice_ = text[start:end] if 0 <= start < end <= len(text) else ""
    if not slice_.strip():
        came = f"{shorten(value)} of a text of {len(text):,} characters"
        expected = "start from 0, end one after the last, an emoji as one character"
        raise BadValue("entity that is not in the text", came, expected)
    start += len(slice_) - len(slice_.lstrip())
    return start, start + len(slice_.strip()), label.strip()


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
