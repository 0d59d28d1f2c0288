"""Tagged sentences from JSON lines and Parquet, words of plain text, and the check of all tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

from bertwright.config.task import Scheme
from bertwright.errors import DataError
from bertwright.labelled.bad_rows import BadRowLog, listed, shorten
from bertwright.labelled.columns import SENTENCES, Columns, Groups, find_asked, find_one, plain
from bertwright.labelled.entity_spans import EntityReader
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.sources import Source, without_surrogates
from bertwright.labelled.tables import Table
from bertwright.labelled.tag_schemes import letters_of, mend, split_tag, stray_tags
from bertwright.labelled.text_rows import BadValue, check_known, read_text, warn_of_one_class
from bertwright.labelled.word_splitter import split_words

_MISSPELT = re.compile(r"[bies]-.+|[BIESbies][_/.:].+|.+[-_/.:][BIES]")
"""A tag of an entity in another spelling: `b-per`, `B_PER`, `PER-B`."""
BadTags = Literal["mend", "refuse"]
WORDS: Groups = (("tokens", "words"), ("token", "word", "characters"))
TEXTS: Groups = (("text", "sentence"),)
TAGS: Groups = (("ner_tags",), ("tags", "labels", "label"), ("ner", "pos_tags", "chunk_tags"))
ENTITIES: Groups = (("entities",), ("spans",), ("label", "labels"))
DOCUMENTS: Groups = (("document", "document_id", "doc_id"),)


def tagging_columns(
    table: Table, asked: Columns, tag_column: str | None, *, label: bool
) -> Columns:
    """The column of words (or of text, to be cut into words) and that of tags.

    Raises:
        DataError: one is missing; lists those there.
    """
    there = table.columns
    if asked.text is not None:
        words: str | None = find_asked(asked.text, there, table.name, "--text")
    else:
        words = find_one(TEXTS, there, table.name, "--text") if _is_marked(there) else None
        words = words or find_one((*WORDS, *TEXTS), there, table.name, "--text")
    if words is None:
        raise DataError(
            f"{table.name} has no column of words (tokens, words), nor a text with entities; it "
            f"has {listed(there)}. Name one: --text COLUMN"
        )
    if not label:
        return Columns(words)
    wanted = tag_column or asked.label
    if wanted is not None:
        return Columns(words, None, find_asked(wanted, there, table.name, "--label"))
    rest = [name for name in there if name != words]
    in_text = any(plain(words) in group for group in TEXTS)
    groups = (*ENTITIES, *TAGS) if in_text else TAGS
    tags = find_one(groups, rest, table.name, "--label")
    if tags is None:
        known = "entities (entities, spans, label)" if in_text else "tags (ner_tags, tags, labels)"
        raise DataError(
            f"{table.name} has no column of {known}; it has {listed(there)}. Name one: --label "
            "COLUMN"
        )
    return Columns(words, None, tags)


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
                    f"{log.place(line)}: the column {shorten(columns.text)} holds a word of a "
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
    entities.tell()


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
    """A text cut into words."""
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


def check_tags(
    examples: list[TaggingExample],
    scheme: Scheme,
    bad_tags: BadTags,
    log: BadRowLog,
    *,
    in_columns: bool,
) -> list[TaggingExample]:
    """The examples with tags that follow the scheme.

    Args:
        bad_tags: `mend` mends a sequence that breaks the scheme, as conlleval reads it, and counts
            it; `refuse` stops.
        in_columns: each word has a line of its own.

    Raises:
        DataError: a tag that is none of the scheme, or a bad sequence where they are refused.
    """
    counts = Counter(tag for each in examples for tag in each.tags or ())
    letters, strays = letters_of(counts), stray_tags(counts)
    if scheme == "none":
        _warn_of_entities(counts, strays, log)
        strays = set()
    checked = []
    sentences = words = 0
    first = ""
    for each in examples:
        tags = each.tags or ()
        stray = next((place for place, tag in enumerate(tags) if tag in strays), None)
        if stray is not None:
            raise DataError(
                f"{log.name}, {_where(each, stray, log, in_columns)}: the tag "
                f"{shorten(tags[stray])} is none of the scheme {scheme}; expected O, or a letter "
                "with a type, as B-PER"
            )
        right = mend(tags, scheme, letters)
        if right != tags:
            wrong = [i for i, tag in enumerate(tags) if tag != right[i]]
            place = wrong[0]
            where = _where(each, place, log, in_columns)
            if bad_tags == "refuse":
                raise DataError(
                    f"{log.name}, {where}: the tag {shorten(tags[place])} breaks the scheme "
                    f"{scheme} after {shorten(tags[place - 1]) if place else 'the start'}; "
                    f"expected {shorten(right[place])}. To mend such tags: --bad-tags mend"
                )
            sentences += 1
            words += len(wrong)
            first = first or where
            each = replace(each, tags=right)
        checked.append(each)
    if sentences:
        log.warnings.append(
            f"{log.name}: {words:,} tags in {sentences:,} sentences break the scheme {scheme} and "
            f"were mended as conlleval reads them (first at {first}). To stop at such tags: "
            "--bad-tags refuse"
        )
    counts = Counter(tag for each in checked for tag in each.tags or ())
    warn_of_one_class(counts, counts.total(), log)
    return checked


def _where(example: TaggingExample, word: int, log: BadRowLog, in_columns: bool) -> str:
    """Where a word stands: its line in columns, else its sentence's and its number in it."""
    if in_columns:
        return f"{log.unit} {example.line + word:,}"
    return f"{log.unit} {example.line:,}, word {word + 1:,}"


def _warn_of_entities(counts: Counter[str], strays: set[str], log: BadRowLog) -> None:
    """Warn where some tags begin an entity, but too many others mark none, and where all look like
    those of entities, but are spelled otherwise."""
    begins = [tag for tag in counts if split_tag(tag)[0] == "B" and tag not in strays]
    if begins and strays:
        most = max(strays, key=lambda tag: counts[tag])
        log.warnings.append(
            f"{log.name}: some tags are as those of entities ({shorten(begins[0])}), but "
            f"{sum(counts[tag] for tag in strays):,} of {counts.total():,} are not (most often "
            f"{shorten(most)}): each is a label of its word, and there are no entities"
        )
    named = [tag for tag in counts if tag not in ("O", "o")]
    if len(named) > 1 and all(map(str.isdecimal, named)):
        log.warnings.append(
            f"{log.name}: the tags are numbers; if they mark entities, write their names, as B-PER "
            "and O: so each is a label of its word, and there are no entities"
        )
    elif named and all(map(_MISSPELT.fullmatch, named)) and not begins:
        log.warnings.append(
            f"{log.name}: the tags are as {shorten(named[0])}; if they mark entities, write them "
            "as B-PER, I-PER and O: so each is a label of its word, and there are no entities"
        )


def check_known_tags(
    examples: Sequence[TaggingExample],
    labels: Sequence[str] | None,
    log: BadRowLog,
    *,
    in_columns: bool,
) -> None:
    """Refuse tags that the model was not taught.

    Raises:
        DataError: names the tag, its line and the nearest known tag.
    """
    known = set(labels or ())
    for each in examples if labels is not None else ():
        for place, tag in enumerate(each.tags or ()):
            if tag not in known:
                where = _where(each, place, log, in_columns)
                check_known(tag, labels, f"{log.name}, {where}")
