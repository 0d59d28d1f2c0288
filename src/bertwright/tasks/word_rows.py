"""Tagged words in the rows of a CSV file, with a column that says which sentence each is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bertwright.errors import DataError
from bertwright.tasks.bad_rows import BadRowLog, listed
from bertwright.tasks.columns import Columns, Groups, find_asked, find_one
from bertwright.tasks.examples import TaggingExample
from bertwright.tasks.sources import without_surrogates
from bertwright.tasks.tables import Table
from bertwright.tasks.tagging_rows import TAGS

WORDS: Groups = (("word", "token"), ("words", "tokens"))
SENTENCES: Groups = (
    ("sentence_#", "sentence_id", "sent_id", "sentence_number", "sentence_idx", "sentence"),
)


def word_columns(table: Table, asked: Columns, tag_column: str | None) -> tuple[Columns, str]:
    """The columns of words and of tags, and that of sentences.

    Raises:
        DataError: one is missing; lists those there.
    """
    there, name = table.columns, table.name
    words = find_asked(asked.text, there, name, "--text") if asked.text else None
    words = words or find_one(WORDS, there, name, "--text")
    wanted = tag_column or asked.label
    tags = find_asked(wanted, there, name, "--label") if wanted else None
    tags = tags or find_one((*TAGS, ("tag",)), there, name, "--label")
    sentences = find_one(SENTENCES, there, name, "--text")
    missing = {"words (word, token)": words, "tags (tag, ner_tags)": tags}
    missing["sentences (sentence_id, Sentence #)"] = sentences
    lacks = [what for what, column in missing.items() if column is None]
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
    for line, (word, tag, sentence) in table.rows([*columns.names(), sentences]):
        if str(sentence).strip() and sentence != current:
            if words and not broken:
                yield TaggingExample(tuple(words), tuple(tags), line=begun)
            words, tags, begun, broken, current = [], [], line, False, sentence
        pair = [without_surrogates(str(each).strip(), log) for each in (word, tag)]
        if not all(pair) and not broken:
            column = columns.names()[pair.index("")]
            log.bad(line, "sentence with an empty word or tag", f"{listed([column])} is empty")
            broken = True
        words.append(pair[0])
        tags.append(pair[1])
    if words and not broken:
        yield TaggingExample(tuple(words), tuple(tags), line=begun)
