"""Tagged words in the rows of a CSV file, with a column that says which sentence each is of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from bertwright.errors import DataError
from bertwright.tasks.bad_rows import BadRowLog, listed
from bertwright.tasks.columns import Columns, Groups, find_asked, find_one, plain
from bertwright.tasks.examples import TaggingExample
from bertwright.tasks.sources import without_surrogates
from bertwright.tasks.tables import Table
from bertwright.tasks.tagging_rows import TAGS

WORDS: Groups = (("word", "token"), ("words", "tokens"))
SENTENCES: Groups = (
    ("sentence_#", "sentence_id", "sent_id", "sentence_number", "sentence_idx", "sentence"),
)


def are_words(table: Table) -> bool:
    """Whether the rows of a table to predict are words, not texts."""
    names = [{plain(name) for name in table.columns} & {*chain(*g)} for g in (WORDS, SENTENCES)]
    return all(names)


def word_columns(
    table: Table, asked: Columns, tag_column: str | None, *, label: bool
) -> tuple[Columns, str]:
    """The columns of words and of tags, and that of sentences.

    Raises:
        DataError: one is missing; lists those there.
    """
    there, name = table.columns, table.name
    words = find_asked(asked.text, there, name, "--text") if asked.text else None
    words = words or find_one(WORDS, there, name, "--text")
    wanted = tag_column or asked.label
    tags = find_asked(wanted, there, name, "--label") if wanted else None
    tags = tags or (find_one((*TAGS, ("tag",)), there, name, "--label") if label else None)
    sentences = find_one(SENTENCES, there, name, "--text")
    needed = {"words (word, token)": words, "sentences (sentence_id, Sentence #)": sentences}
    if label:
        needed["tags (tag, ner_tags)"] = tags
    lacks = [what for what, column in needed.items() if column is None]
    if lacks or words is None or sentences is None:
        raise DataError(
            f"{name} lacks a column of {' and one of '.join(lacks)}; it has {listed(there)}. "
            "Expected of CSV a word a row with its tag and its sentence; or a word and its tag a "
            "line with a blank line after a sentence (.conll, .tsv), or lists in JSON lines"
        )
    return Columns(words, None, tags), sentences


def word_examples(
    table: Table, columns: Columns, sentences: str, log: BadRowLog
) -> Iterator[TaggingExample]:
    """The sentences. One begins where its column changes; where it is empty the last goes on.

    A sentence with a word or a tag that is empty is a bad row, at that line.
    """
    words: list[str] = []
    tags: list[str] = []
    begun, broken = 0, False
    current: Any = None
    names = columns.names()
    for line, (*values, sentence) in table.rows([*names, sentences]):
        if str(sentence).strip() and sentence != current:
            if words and not broken:
                yield TaggingExample(tuple(words), tuple(tags) or None, line=begun)
            words, tags, broken, current = [], [], False, sentence
        begun = begun if words else line
        said = [without_surrogates(str(each).strip(), log) for each in values]
        if not all(said) and not broken:
            column = names[said.index("")]
            log.bad(line, "sentence with an empty word or tag", f"{listed([column])} is empty")
            broken = True
        words.append(said[0])
        tags += said[1:]
    if words and not broken:
        yield TaggingExample(tuple(words), tuple(tags) or None, line=begun)
