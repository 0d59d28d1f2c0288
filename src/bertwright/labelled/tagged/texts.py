"""Read tagged texts and tagged lists of words from JSON lines, JSON and Parquet, and plain text.

Entities may be marked by character offsets in a text, as doccano, Prodigy and spaCy do. The text is
split into words (`split_words`); a word is split again if an entity begins or ends within it. The
tags are IOB2. Lists of words may be written as text, as pandas writes them to CSV.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from bertwright.errors import shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.file import LabelledTable, Row, Stream, read_text
from bertwright.labelled.several_labels import list_of_text
from bertwright.rows.bad_rows import BadRowLog, BadValue
from bertwright.rows.columns import NAMES, plain
from bertwright.text.tokenizer.normalize import is_chinese, is_punctuation

_FIELDS = (("start", "start_offset"), ("end", "end_offset"), ("label", "type", "tag", "entity"))
_MARK = re.compile("[\u3001-\u303f\uff01-\uff65]")
"""Unicode blocks of Chinese and Japanese punctuation: 。、「」 and full- or half-width forms."""


def read_lists(table: LabelledTable) -> Stream:
    """Read the sentences of a table of words or texts.

    Rows with the same `document` are each other's context. A text is split into words, whose tags
    follow from the entities marked in it.
    """
    log, names = table.log, {*map(plain, table.columns)}
    # if entities are marked in texts, lists of words such as Prodigy's `tokens` have no tags
    marked = names & {"entities", "spans"} and not names & {*chain(*NAMES["tags"])}
    words = table.find(
        table.chosen.text, "texts or words" if marked else "words or texts", "--text"
    )
    what = "entities or tags" if plain(words) in chain(*NAMES["texts"]) else "tags"
    label = table.label(what, [words])
    columns = Columns(words, None, label)
    document = table.known("documents", "--text")
    answer = "answer" if label is not None and "answer" in table.columns else None
    documents: dict[str, int] = {}
    are_lists = plain(words) in chain(*NAMES["words"])  # perhaps written as text

    def make(row: Row, id_: str, line: int) -> TaggingExample | None:
        number = documents.setdefault(str(row[document]), len(documents)) if document else 0
        value, given, accepted = row[words], row.get(label), row.get(answer)
        if are_lists:
            value, given = as_list(value), as_list(given)
        if accepted in ("reject", "ignore"):  # Prodigy's
            log.skipped.add(line, "the annotator did not accept it (answer)")
            return None
        are_tags = isinstance(given, list) and any(isinstance(each, str) for each in given)
        if isinstance(value, str) and not are_tags:
            example = text_example(read_text(row, words), line)
            example = replace(example, document=number, id=id_)
            if label is None:
                return example
            entities = [] if given is None and accepted == "accept" else given
            return _marked(example, entities, log)
        tokens = _strings(value, words)
        tags = None if label is None else _strings(given, label)
        if tags is not None and len(tags) != len(tokens):
            came = f"{len(tokens)} words, {len(tags)} tags"
            raise BadValue("sentence with a ragged line", came, "a tag for each word")
        return TaggingExample(tokens, tags, number, id=id_, line=line)

    examples = table.examples([words, label, document, answer], make)
    return table.stream(examples, columns, beside=[document, answer])


def as_list(value: Any) -> Any:
    """Return the list that a text is, or else the value."""
    found = list_of_text(value) if isinstance(value, str) else None
    return value if found is None else found


def _strings(value: Any, column: str | None) -> tuple[str, ...]:
    in_column = f"in the column {shorten(column)}"
    if not isinstance(value, list):
        raise BadValue("no list of words", f"{shorten(value)} {in_column}", "a list of strings")
    for each in value or [""]:
        if not isinstance(each, str | int) or not str(each).strip():
            came = f"{shorten(each)} {in_column}"
            raise BadValue("sentence with an empty word or tag", came, "words")
    return tuple(map(str, value))


def text_example(text: str, line: int) -> TaggingExample:
    """Split a text into words and return them as an example without tags."""
    offsets = tuple(split_words(text))
    words = tuple(text[start:end] for start, end in offsets)
    return TaggingExample(words, None, text=text, offsets=offsets, line=line)


def _marked(example: TaggingExample, value: Any, log: BadRowLog) -> TaggingExample:
    """Return the example with tags for the entities of its row. A word is split where an entity
    begins or ends within it.
    """
    text, offsets = example.text or "", example.offsets or ()
    if not isinstance(value, list):
        raise BadValue("no list of entities", shorten(value), 'a list of [start, end, "label"]')
    entities = sorted({_entity(each, text) for each in value})
    for (_, end, _), (start, stop, _) in pairwise(entities):
        if start < end:
            raise BadValue("entities that overlap", shorten(text[start:stop]), "one tag per word")
    ends = sorted({end for each in entities for end in each[:2]})
    words = [
        word
        for start, stop in offsets
        for word in pairwise([start, *(end for end in ends if start < end < stop), stop])
    ]
    tags = ["O"] * len(words)
    for number, (at, _) in enumerate(words):
        for start, end, label in entities:
            if start <= at < end:
                tags[number] = f"{'B' if at == start else 'I'}-{label}"
    if len(words) > len(offsets):
        log.mended.add(
            example.line,
            "texts have entities that begin or end within a word, which is split there (characters "
            "are counted as in Python, where an emoji is one)",
        )
    spelled = tuple(text[start:end] for start, end in words)
    return replace(example, words=spelled, tags=tuple(tags), offsets=tuple(words))


def _entity(value: Any, text: str) -> tuple[int, int, str]:
    """Return the start, end and label of an entity, without white space at its ends."""
    given = value
    if isinstance(value, dict):
        given = [next((value[name] for name in names if name in value), None) for names in _FIELDS]
        if given[2] is None and isinstance(own := value.get("labels"), list) and len(own) == 1:
            given[2] = own[0]  # Label Studio's, also in its JSON-MIN
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
    """Return the start and end of each word of a text, in characters.

    Words are separated by white space. Punctuation around a word, each Chinese character and each
    Chinese or Japanese punctuation mark are words of their own. Other punctuation within a word
    stays: `U.S`, `e-mail`, `don't`, `ジョン・スミス`.
    """
    words: list[tuple[int, int]] = []
    for solid in re.finditer(r"\S+", text):
        start, stop = solid.span()
        alone = [at for at in range(start, stop) if _stands_alone(text[at])]
        for first, last in pairwise([start - 1, *alone, stop]):
            words += _without_marks(text, first + 1, last)
            words += [(last, last + 1)] if last < stop else []
    return words


def _stands_alone(character: str) -> bool:
    return is_chinese(character) or bool(_MARK.match(character) and is_punctuation(character))


def _without_marks(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Return a word and, separately, each punctuation mark around it."""
    first, last = start, stop
    while first < last and is_punctuation(text[first]):
        first += 1
    while last > first and is_punctuation(text[last - 1]):
        last -= 1
    word = [(first, last)] if first < last else []
    before, behind = range(start, first), range(last, stop)
    return [*((at, at + 1) for at in before), *word, *((at, at + 1) for at in behind)]
