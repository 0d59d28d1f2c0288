"""Tagged words in the rows of CSV or TSV, with a column that says which sentence each is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.bad_rows import BadRowLog, listed, shorten
from bertwright.labelled.columns import SENTENCES, Columns, Groups, find_asked, find_one, plain
from bertwright.labelled.delimited import WRONG_WIDTH
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.sources import without_surrogates
from bertwright.labelled.tables import Table
from bertwright.labelled.tagging_rows import DOCUMENTS, TAGS

WORDS: Groups = (("word", "token"), ("words", "tokens"))
_BESIDE = "sentence beside a row that was left out"
_LINE_END = "sentence with a line end in a word"


def are_words(columns: Sequence[str]) -> bool:
    """Whether the rows under these names are words, not texts."""
    names = {*map(plain, columns)}
    return all(names & {*chain(*groups)} for groups in (WORDS, SENTENCES))


def word_columns(
    table: Table, asked: Columns, tag_column: int | str | None, *, label: bool
) -> tuple[Columns, str]:
    """The columns of words and of tags, and that of sentences.

    Args:
        tag_column: the column of tags, by name or by number from 1 (-1 the last).

    Raises:
        DataError: one is missing; lists those there.
    """
    there, name = table.columns, table.name
    words = find_asked(asked.text, there, name, "--text") if asked.text else None
    words = words or find_one(WORDS, there, name, "--text")
    tags = None
    if label:
        wanted = asked.label if tag_column is None else _by_number(str(tag_column), there)
        tags = find_asked(wanted, there, name, "--label") if wanted else None
        tags = tags or find_one((*TAGS, ("tag",)), there, name, "--label")
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
    if sentences in (words, tags):
        raise DataError(
            f"{name}: the column {shorten(sentences)} says which sentence a word is of; --text and "
            "--label must name others"
        )
    return Columns(words, None, tags), sentences


def _by_number(wanted: str, columns: Sequence[str]) -> str:
    """The name of a column that is asked for by number; others as they are."""
    if wanted in columns or not wanted.removeprefix("-").isdecimal():
        return wanted
    place = int(wanted) - 1 if int(wanted) > 0 else len(columns) + int(wanted)
    return columns[place] if 0 <= place < len(columns) else wanted


def word_examples(
    table: Table, columns: Columns, sentences: str, log: BadRowLog
) -> Iterator[TaggingExample]:
    """The sentences. One begins where its column changes, or that of the document; where they are
    empty the last goes on.

    A sentence with a word or a tag that cannot be read is a bad row, at that line. A row of another
    width may have begun a sentence: those on both sides of it are left out.
    """
    names = columns.names()
    document = find_one(DOCUMENTS, table.columns, table.name, "--text")
    words: list[str] = []
    tags: list[str] = []
    documents: dict[str, int] = {}
    seen: set[tuple[int, str]] = set()
    begun = number = gaps = again = 0
    current = first_again = ""
    broken = False

    def gap() -> bool:
        """Whether rows were left out since the last call; then the sentence that is open is too."""
        nonlocal gaps, broken
        before, gaps = gaps, log.count(WRONG_WIDTH) + log.count(_LINE_END)
        if gaps > before and words and not broken:
            log.leave_out(begun, _BESIDE)
        broken |= gaps > before
        return gaps > before

    for line, values in table.rows([*names, sentences, *([document] if document else [])]):
        said = [without_surrogates(str(each).strip(), log) for each in values]
        sentence, its_document = said[len(names)], said[-1] if document else ""
        beside = gap()
        at = documents.setdefault(its_document, len(documents)) if its_document else number
        if at != number or (sentence and sentence != current):
            if words and not broken:
                yield TaggingExample(tuple(words), tuple(tags) or None, number, line=begun)
            words, tags, current, number, broken = [], [], sentence, at, beside
            if beside:
                log.leave_out(line, _BESIDE)
            if sentence and (at, sentence) in seen:
                again += 1
                first_again = first_again or f"{shorten(sentence)} at {log.unit} {line:,}"
            seen.add((at, sentence))
        begun = begun if words else line
        if not broken and (wrong := _wrong(said[: len(names)], names)):
            log.bad(line, *wrong)
            broken = True
        words.append(said[0])
        tags += said[1 : len(names)]
    gap()
    if words and not broken:
        yield TaggingExample(tuple(words), tuple(tags) or None, number, line=begun)
    if again:
        log.warnings.append(
            f"{log.name}: sentences come again behind others, {again:,} times (first "
            f"{first_again}); each part is read as a sentence of its own. If the rows were "
            "shuffled, put them in their order again"
        )


def _wrong(said: Sequence[str], names: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with a word and its tag, in few words and in a sentence; None: nothing."""
    if not all(said):
        column = names[said.index("")]
        return "sentence with an empty word or tag", f"{listed([column])} is empty"
    if "\n" in said[0]:
        return (
            _LINE_END,
            f"the word {shorten(said[0])} is of several lines; a quote that is a word must be "
            'written """"',
        )
    if said[0].startswith(("['", '["')):
        return (
            "list in place of a word",
            f"{shorten(said[0])} in the column {shorten(names[0])} is a list; expected a word a "
            "row, or lists in JSON lines",
        )
    return None
