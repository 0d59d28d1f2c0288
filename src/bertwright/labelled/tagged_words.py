"""Words with tags, a word a line or a row: CoNLL columns, CoNLL-U, tables of words.

**CoNLL columns** (CoNLL 2000 and 2003): a word a line, a blank line between sentences. Columns are
separated by tabs if every line has one, else by blanks. `-DOCSTART-` begins a document; in a file
without it all sentences are one document, each with its neighbours in the file. A sentence a line
(`w w w TAB t t t`, as Resume-NER comes) is read too.

Where the first column counts the words of each sentence, the second is the word and lines that
begin with `#` are comments: **CoNLL-U** (Nivre et al. 2020, universaldependencies.org/format.html),
GermEval 2014, Universal NER. Of CoNLL-U the syntactic words are read, those that have tags: ranges
(`1-2`, as written) and empty nodes (`1.1`) are not; `# newdoc` begins a document.

**A word a row** of CSV or TSV: a column says which sentence it is of, and where that is empty the
sentence before goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from bertwright.errors import DataError
from bertwright.labelled.columns import (
    SENTENCES,
    Columns,
    Groups,
    find,
    find_one,
    plain,
)
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.source import BadRowLog, Source, listed, shorten, without_surrogates
from bertwright.labelled.table import WRONG_WIDTH, Table
from bertwright.labelled.tagged_texts import DOCUMENTS, TAGS

WORDS: Groups = (("word", "token"), ("words", "tokens"))
_BESIDE = "sentence beside a row that was left out"
_LINE_END = "sentence with a line end in a word"
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"
_WORD_NAMES = ("word", "words", "token", "tokens", "form", "text", "char")
_TAG_NAMES = ("tag", "tags", "label", "labels", "ner", "ner_tags", "pos", "upos", "xpos", "chunk")
_NUMBER = re.compile(r"(\d+)([-.]\d+)?")
"""Of a word in its sentence; of a range of words, or of an empty node."""
_UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_EMPTY_IS_A_VALUE = ("feats", "deps", "misc")
"""Columns of CoNLL-U where `_` is a value; in others it stands for a missing one."""
_GLOBAL = re.compile(r"# *global\.columns *= *(.+)")
_NEW_DOCUMENT = re.compile(r"# *newdoc\b")
_COMMENT = re.compile(r"#\s*(id\b|\w+\s*=)")


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are columns."""

    tabs: bool
    width: int
    """Columns of a line; ragged lines have others."""
    names: tuple[str, ...] = ()
    """What the columns are called, by the first line or by CoNLL-U."""
    a_line: bool = False
    """Whether a line is a sentence: its words, a tab, its tags."""
    word: int = 0
    """Number of the word's column, from 0; 1: its number in the sentence stands before it."""
    comments: bool = False
    """Whether a line that begins a sentence with # (of numbered words: any) is a comment."""
    universal: bool = False
    """Whether it is CoNLL-U."""

    def split(self, line: str) -> list[str]:
        """The cells of a line."""
        return line.split("\t") if self.tabs else _BLANKS.split(line.strip(" \t"))

    def in_words(self, tag: int | None) -> str:
        """The form, for users; `tag` is the column of tags, from 0."""
        if self.a_line:
            return "a sentence a line: words, a tab, tags"
        if self.universal:
            return "CoNLL-U" + ("" if tag is None else f", tags in {self.names[tag].upper()}")
        tags = "" if tag is None else f", tags in column {tag + 1}"
        between = "tabs" if self.tabs else "blanks"
        return f"CoNLL columns ({self.width}, separated by {between}{tags})"

    def index_of(self, column: str | None) -> int | None:
        """The index, from 0, of a column by number from 1 (-1 the last) or by name; None if there
        is none such, or it is the words' or their numbers'."""
        names = [plain(name) for name in self.names]
        if column is None or not (plain(column) in names or column.removeprefix("-").isdecimal()):
            return None
        if plain(column) in names:
            index = names.index(plain(column))
        else:
            index = int(column) - 1 if int(column) > 0 else self.width + int(column)
        return index if self.word < index < self.width else None


def layout_of(source: Source, universal: bool = False) -> Layout:
    """How the first lines are columns: `universal` as CoNLL-U, as are ten with numbered words.

    Raises:
        DataError: there are no words, or they do not come first; columns of CoNLL-U Plus that do
            not begin with ID and FORM.
    """
    lines = [line for line in source.head if line.strip(" \t") and not line.startswith(_DOCUMENT)]
    bare = [line for line in lines if not line.startswith("#")]
    comments = _has_comments(source)
    if not lines or (not bare and (universal or comments)):
        raise DataError(f"{source.name} has no words; expected a word and its tag a line")
    if found := _GLOBAL.fullmatch(source.first):
        names = tuple(found[1].lower().split())
        if names[:2] != _UNIVERSAL[:2] or len(names) < 3:
            raise DataError(
                f"{source.name} has the columns {listed(found[1].split())}; expected ID, FORM and "
                "others in CoNLL-U Plus"
            )
        return Layout(True, len(names), names, word=1, comments=True, universal=True)
    tabs = all("\t" in line for line in bare or lines)
    rows = [Layout(tabs, 0).split(line) for line in bare]
    ten = tabs and {len(row) for row in rows} == {len(_UNIVERSAL)} and _is_numbered(rows)
    if universal or ten:
        return Layout(True, len(_UNIVERSAL), _UNIVERSAL, word=1, comments=True, universal=True)
    if rows and _is_numbered(rows[1:] if _is_header(rows[0], 1) else rows):
        word, comments = 1, True
    else:
        word = 0
        lines = bare if comments else lines
        tabs = all("\t" in line for line in lines)
        rows = [Layout(tabs, 0).split(line) for line in lines]
    a_line = tabs and not word and 2 * sum(map(_is_sentence, lines)) > len(lines)
    width = 2 if a_line else len(rows[0])
    first = tuple(cell.strip() for cell in rows[0])
    begins = rows[0] == Layout(tabs, 0).split(source.first)
    headed = begins and len(rows) > 1 and _is_header(first, word)
    words = [cell for cell in first[1:] if cell.lower() in _WORD_NAMES[:5]]
    if tabs and begins and not headed and words and first[0].lower() in _TAG_NAMES:
        raise DataError(
            f"{source.name}: the first line names the columns {listed(first)}; expected "
            f"{shorten(words[0])} as the first, and the tag as the last"
        )
    return Layout(tabs, width, first if headed else (), a_line, word, comments)


def _is_numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of three cells or more counts: each is one above the one before, or 1."""
    before = -1
    rises = False
    for row in rows:
        found = _NUMBER.fullmatch(row[0])
        if found is None or len(row) < 3:
            return False
        if found[2] is None:
            number = int(found[1])
            if number > 1 and number != before + 1:
                return False
            rises |= before >= 0 and number == before + 1
            before = number
    return rises


def _has_comments(source: Source) -> bool:
    """Whether every sentence begins with a line as `# id 7` or `# text = ...`."""
    before = ["", *source.head]
    begins = [
        line
        for last, line in zip(before, source.head, strict=False)
        if line.strip(" \t") and not last.strip(" \t") and not line.startswith(_DOCUMENT)
    ]
    return bool(begins) and all(map(_COMMENT.match, begins))


def _is_header(cells: Sequence[str], word: int) -> bool:
    names = [cell.strip().lower() for cell in cells]
    return len(names) > word + 1 and names[word] in _WORD_NAMES and names[-1] in _TAG_NAMES


def _is_sentence(line: str) -> bool:
    cells = line.split("\t")
    return len(cells) == 2 and len(cells[0].split(" ")) > 1 < len(cells[1].split(" "))


def tag_index(source: Source, layout: Layout, chosen: str | None, hint: str | None) -> int:
    """Index of the column of tags, from 0: the one `chosen`, by number from 1 or by name; else
    the `hint`, that of the training file, if it is there; else UPOS or the last.

    Raises:
        DataError: there is one column only; that chosen is not there, or is the words'.
    """
    name = source.name
    if layout.width < 2:
        raise DataError(
            f"{name} has one column; expected a word and its tag a line, with a blank or a tab "
            f"between. It begins with {listed(source.head[:1])}"
        )
    index = layout.index_of(hint if chosen is None else chosen)
    if index is None and chosen is not None:
        raise DataError(
            f"{name} has no column {shorten(chosen)} of tags; a line has {layout.width} columns"
            f"{f' ({listed(layout.names)})' if layout.names else ''}, the "
            f"{'second' if layout.word else 'first'} the word. Expected a number from "
            f"{layout.word + 2}, -1 for the last, or a name"
        )
    if index is not None:
        return index
    return layout.names.index("upos") if "upos" in layout.names else layout.width - 1


def conll_examples(
    source: Source, layout: Layout, tag: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    """The sentences of a file; `tag` is the column of tags, from 0 (None: tags are not read).

    Raises:
        DataError: a ragged line where `log` refuses them; names it.
    """
    if layout.a_line:
        yield from _sentence_a_line(source, layout, tag, log)
        return
    words: list[str] = []
    tags: list[str] = []
    document = begin = last = 0
    any_before = open_ = broken = False
    for number, line in _body(source, layout):
        if line is None or not line.strip(" \t") or line.startswith(_DOCUMENT):
            if words and not broken:
                known = tuple(tags) if tag is not None else None
                yield TaggingExample(tuple(words), known, document=document, line=begin)
                any_before = True
            words, tags, open_, broken = [], [], False, False
            if line is not None and line.startswith(_DOCUMENT):
                document, any_before = document + any_before, False
            continue
        comment = layout.comments and line.startswith("#") and (layout.word or not open_)
        open_ = True
        if comment:
            if _NEW_DOCUMENT.match(line):
                document, any_before = document + any_before, False
            continue
        cells = layout.split(line)
        counted = _NUMBER.fullmatch(cells[0]) if layout.word else None
        if counted and counted[2] and len(cells) == layout.width:
            continue  # a range or an empty node is no word of the sentence's own
        begin = begin if words or broken else number
        if broken:
            continue
        if wrong := _wrong(cells, layout, tag, last + 1 if words else None):
            log.bad(number, *wrong)
            broken = True
            continue
        last = int(cells[0]) if layout.word else 0
        words.append(cells[layout.word])
        tags.append(cells[tag] if tag is not None else "")


def _body(source: Source, layout: Layout) -> Iterator[tuple[int, str | None]]:
    """The lines below the header, and None after the last."""
    lines = source.lines()
    if layout.names and not layout.universal:
        next(number for number, line in lines if line.strip())
    yield from lines
    yield 0, None


def _wrong(
    cells: Sequence[str], layout: Layout, index: int | None, expected: int | None
) -> tuple[str, str] | None:
    """What is wrong with the line of a word that should have the number `expected` (None: 0 or 1),
    in few words and in a sentence; None: nothing."""
    if len(cells) != layout.width:
        first = "CoNLL-U" if layout.universal else "the first line"
        return (
            "sentence with a ragged line",
            f"{len(cells)} columns where {first} has {layout.width}; expected a word and its tags"
            f"{', separated by tabs' if layout.tabs else ''}, and a blank line between sentences",
        )
    tag = None if index is None else cells[index]
    if not cells[layout.word].strip() or tag == "":
        return "sentence with an empty word or tag", "an empty word or tag"
    if layout.word and cells[0] not in (["0", "1"] if expected is None else [str(expected)]):
        return (
            "sentence with a wrong number of a word",
            f"the number of the word is {shorten(cells[0])}; expected {expected or 1}, and a blank "
            "line between sentences",
        )
    if layout.universal and tag == "_" and layout.names[index or 0] not in _EMPTY_IS_A_VALUE:
        return (
            "sentence with a word without a tag",
            f"{layout.names[index or 0].upper()} is _, which is no tag; --label chooses another of "
            f"the columns {', '.join(layout.names[2:])}",
        )
    return None


def _sentence_a_line(
    source: Source, layout: Layout, tag: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    for number, line in _body(source, layout):
        if line is None or not line.strip():
            continue
        words, _, tags = (part.strip(" ").split(" ") for part in line.partition("\t"))
        if tag is not None and len(words) != len(tags):
            what = f"{len(words)} words but {len(tags)} tags"
            log.bad(number, "sentence with a ragged line", what)
        elif "" in words:
            log.bad(number, "sentence with an empty word or tag", "two blanks between words")
        else:
            yield TaggingExample(tuple(words), None if tag is None else tuple(tags), line=number)


def is_conll(source: Source, labels: Sequence[str] | None) -> bool:
    """Whether a file whose name says nothing is words in columns and no plain text.

    So it is with `-DOCSTART-`, with numbered words and tabs as in CoNLL-U, with a header as `token
    TAB tag`, with as many tags as words behind a tab on every line, or with a known label in the
    last column of every line.
    """
    lines = [line for line in source.head if line.strip(" \t")]
    if any(line.startswith(_DOCUMENT) for line in lines):
        return True
    layout = layout_of(source)
    if layout.tabs and (layout.word or (layout.names and layout.names[0].lower() != "text")):
        return True
    if layout.comments:
        lines = [line for line in lines if not line.startswith("#")]
    lines = lines[1:] if layout.names else lines
    if layout.a_line:
        halves = [line.partition("\t") for line in lines]
        return all(len(words.split()) == len(tags.split()) for words, _, tags in halves)
    rows = [_BLANKS.split(line.strip(" \t")) for line in lines]
    return labels is not None and all(len(row) > 1 and row[-1] in labels for row in rows)


def are_words(columns: Sequence[str]) -> bool:
    """Whether the rows under these names are words, not texts."""
    names = {*map(plain, columns)}
    return all(names & {*chain(*groups)} for groups in (WORDS, SENTENCES))


def word_columns(table: Table, chosen: Columns, *, label: bool) -> tuple[Columns, str]:
    """The columns of words and of tags, and that of sentences.

    Raises:
        DataError: one is missing; lists those there.
    """
    there, name = table.columns, table.name
    words = find(chosen.text, WORDS, "words (word, token)", "--text", there, name)
    tags = None
    if label:
        wanted = chosen.label and _by_number(chosen.label, there)
        groups = (*TAGS, ("tag",))
        tags = find(wanted, groups, "tags (tag, ner_tags)", "--label", there, name)
    what = "sentences (sentence_id, Sentence #); expected a word a row with its tag and sentence"
    sentences = find(None, SENTENCES, what, "--text", there, name)
    if sentences in (words, tags):
        raise DataError(
            f"{name}: the column {shorten(sentences)} says which sentence a word is of; --text and "
            "--label must name others"
        )
    return Columns(words, None, tags), sentences


def _by_number(wanted: str, columns: Sequence[str]) -> str:
    """The name of a column that is chosen by number; others as they are."""
    if wanted in columns or not wanted.removeprefix("-").isdecimal():
        return wanted
    index = int(wanted) - 1 if int(wanted) > 0 else len(columns) + int(wanted)
    return columns[index] if 0 <= index < len(columns) else wanted


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
        before, gaps = gaps, log.count(WRONG_WIDTH, _LINE_END)
        if gaps > before and words and not broken:
            log.leave_out(begun, _BESIDE)
        broken |= gaps > before
        return gaps > before

    for line, values in table.rows([*names, sentences, *([document] if document else [])]):
        cells = [without_surrogates(str(each).strip(), log) for each in values]
        sentence, its_document = cells[len(names)], cells[-1] if document else ""
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
        if not broken and (wrong := _wrong_word(cells[: len(names)], names)):
            log.bad(line, *wrong)
            broken = True
        words.append(cells[0])
        tags += cells[1 : len(names)]
    gap()
    if words and not broken:
        yield TaggingExample(tuple(words), tuple(tags) or None, number, line=begun)
    if again:
        log.warn(
            f"sentences come again behind others, {again:,} times (first "
            f"{first_again}); each part is read as a sentence of its own. If the rows were "
            "shuffled, put them in their order again"
        )


def _wrong_word(cells: Sequence[str], names: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with a word and its tag, in few words and in a sentence; None: nothing."""
    if not all(cells):
        column = names[cells.index("")]
        return "sentence with an empty word or tag", f"{listed([column])} is empty"
    if "\n" in cells[0]:
        return (
            _LINE_END,
            f"the word {shorten(cells[0])} is of several lines; a quote that is a word must be "
            'written """"',
        )
    if cells[0].startswith(("['", '["')):
        return (
            "list in place of a word",
            f"{shorten(cells[0])} in the column {shorten(names[0])} is a list; expected a word a "
            "row, or lists in JSON lines",
        )
    return None
