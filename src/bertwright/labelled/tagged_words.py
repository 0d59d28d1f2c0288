"""Words with tags, a word a line or a row: CoNLL columns, CoNLL-U, tables of words.

CoNLL columns (CoNLL 2000 and 2003) are separated by tabs if every line has one, else by blanks; a
sentence a line (`w w w TAB t t t`, as Resume-NER comes) is read too. Where the first column counts
the words of each sentence, the second is the word and lines that begin with `#` are comments:
CoNLL-U (Nivre et al. 2020, universaldependencies.org/format.html), GermEval 2014. Of CoNLL-U the
syntactic words are read: ranges (`1-2`) and empty nodes (`1.1`) are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

from bertwright.errors import DataError
from bertwright.labelled.columns import SENTENCES, Columns, Groups, plain
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.source import BadRowLog, BadValue, Source, listed, shorten
from bertwright.labelled.table import WRONG_WIDTH, Table
from bertwright.labelled.tagged_texts import DOCUMENTS, TAGS

WORDS: Groups = (("word", "token"), ("words", "tokens"))
_RAGGED, _EMPTY = "sentence with a ragged line", "sentence with an empty word or tag"
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"
_WORD_NAMES = {"word", "words", "token", "tokens", "form", "char", "text"}
_TAG_NAMES = {"tag", "tags", "label", "labels", "ner", "ner_tags", "pos", "upos", "xpos", "chunk"}
_NUMBER = re.compile(r"(\d+)([-.]\d+)?")
"""Of a word in its sentence; of a range of words, or of an empty node."""
_UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_VALUES = ("feats", "deps", "misc")
"""Columns of CoNLL-U where `_` is a value; in others it stands for a missing one."""
_NEW_DOCUMENT = re.compile(r"# *newdoc\b")


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
    """The column of words, from 0."""
    numbered: bool = False
    """Whether the number of a word in its sentence stands before it."""
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
        return f"CoNLL columns ({self.width}{tags})"


def layout_of(source: Source, universal: bool = False) -> Layout:
    """How the first lines are columns: `universal` as CoNLL-U, as are ten with numbered words.

    Raises:
        DataError: there are no words.
    """
    lines = [line for line in _not_blank(source) if not line.startswith(_DOCUMENT)]
    bare = [line for line in lines if line[0] != "#"]
    if not lines or (universal and not bare):
        raise DataError(f"{source.name} has no words; expected a word and its tag a line")
    for numbered, own in ((True, bare), (False, lines)):
        layout = Layout(bool(own) and all("\t" in line for line in own), 0)
        rows = [layout.split(line) for line in own]
        word = _word_of_header(layout.split(source.first))
        if not numbered or _is_numbered(rows[word is not None :]):
            break
    ten = layout.tabs and numbered and {*map(len, rows)} == {len(_UNIVERSAL)}
    if universal or ten:
        return Layout(True, len(_UNIVERSAL), _UNIVERSAL, word=1, numbered=True, universal=True)
    a_line = layout.tabs and not numbered and 2 * sum(map(_is_sentence, own)) > len(own)
    names = () if word is None else tuple(cell.strip() for cell in rows[0])
    word = int(numbered) if word is None else word
    return Layout(layout.tabs, 2 if a_line else len(rows[0]), names, a_line, word, numbered)


def _not_blank(source: Source) -> list[str]:
    return [line for line in source.head if line.strip(" \t")]


def _is_numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of three cells or more counts: each is one above the one before, or 1."""
    found = [_NUMBER.fullmatch(row[0]) if len(row) > 2 else None for row in rows]
    if None in found:
        return False
    numbers = [int(each[1]) for each in found if each and each[2] is None]
    steps = [after - before for before, after in pairwise(numbers)]
    begins = all(n < 2 or step == 1 for n, step in zip(numbers, [0, *steps], strict=False))
    return 1 in steps and begins


def _word_of_header(cells: Sequence[str]) -> int | None:
    """Which cell is the name of words, where the cells are names of words and tags."""
    names = [cell.strip().lower() for cell in cells]
    word = next((number for number, name in enumerate(names) if name in _WORD_NAMES), -1)
    if word < 0 or not _TAG_NAMES.intersection(names):
        return None
    return None if names[word] == "text" and _TAG_NAMES.intersection(names[:word]) else word


def _is_sentence(line: str) -> bool:
    cells = line.split("\t")
    return len(cells) == 2 and len(cells[0].split(" ")) > 1 < len(cells[1].split(" "))


def tag_index(source: Source, layout: Layout, chosen: str | None, hint: str | None) -> int:
    """Index of the column of tags, from 0: the one `chosen`, by number from 1 or by name; else
    the `hint`, that of the training file, if it is there; else UPOS or the last.

    Raises:
        DataError: there is one column only; that chosen is not there, or is the words'.
    """
    width, names = layout.width, [*map(plain, layout.names)]
    usual = ("upos" if layout.universal else str(width), str(width - 1))  # the last may be the word
    for column in (hint or "", *usual) if chosen is None else (chosen,):
        index = int(column) - 1 if column.isdecimal() else -1
        if plain(column) in names:
            index = names.index(plain(column))
        if layout.numbered <= index < width and index != layout.word:
            return index
    which = "" if chosen is None else f" {shorten(chosen)}"
    raise DataError(
        f"{source.name} has no column{which} of tags; a line has {width} columns"
        f"{f' ({listed(layout.names)})' if names else ''}, the word in column {layout.word + 1}. "
        "Expected a word and its tag a line, with a blank or a tab between, and --label with the "
        "number or the name of a column"
    )


def conll_examples(
    source: Source, layout: Layout, tag: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    """The sentences of a file; `tag` is the column of tags, from 0 (None: tags are not read)."""
    lines = source.lines()
    if layout.names and not layout.universal:
        next(number for number, line in lines if line.strip())
    if layout.a_line:
        yield from _sentence_a_line(lines, tag, log)
        return
    document = sentences = 0
    for own in _sentences(lines, layout):
        if not own:
            document, sentences = document + (sentences > 0), 0
            continue
        rows = [(number, layout.split(line)) for number, line in own]
        if layout.numbered:  # a range or an empty node is no word of the sentence's own
            rows = [(n, row) for n, row in rows if len(row) < layout.width or not _is_other(row[0])]
        for at, (number, cells) in enumerate(rows):
            try:
                _check(cells, layout, tag, rows[at - 1][1][0] if at else None)
            except BadValue as error:
                log.bad(number, *error.args)
                break
        else:
            words = tuple([cells[layout.word] for _, cells in rows])
            tags = None if tag is None else tuple([cells[tag] for _, cells in rows])
            if words:
                sentences += 1
                yield TaggingExample(words, tags, document, line=rows[0][0])


def _sentences(lines: Iterator[tuple[int, str]], layout: Layout) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence; none where a document begins."""
    own: list[tuple[int, str]] = []
    for number, line in chain(lines, [(0, "")]):
        is_comment = layout.numbered and line[:1] == "#"
        if is_comment and _NEW_DOCUMENT.match(line):
            yield []
        elif not line.strip(" \t") or line.startswith(_DOCUMENT):
            if own:
                yield own
                own = []
            if line.startswith(_DOCUMENT):
                yield []
        elif not is_comment:
            own.append((number, line))


def _is_other(number: str) -> bool:
    return bool((found := _NUMBER.fullmatch(number)) and found[2])


def _check(cells: Sequence[str], layout: Layout, index: int | None, before: str | None) -> None:
    """Raise BadValue unless a line is that of a word behind the one with the number `before`."""
    if len(cells) != layout.width:
        tabs = ", separated by tabs" if layout.tabs else ""
        expected = f"{layout.width}{tabs}, and a blank line between sentences"
        raise BadValue(_RAGGED, f"{len(cells)} columns", expected)
    tag = None if index is None else cells[index]
    if not cells[layout.word].strip() or tag == "":
        raise BadValue(_EMPTY, "", "a word and its tag")
    numbers = ["0", "1"] if before is None else [str(int(before) + 1)] if layout.numbered else []
    if layout.numbered and cells[0] not in numbers:
        expected = f"{numbers[-1]}, and a blank line between sentences"
        raise BadValue("sentence with a wrong number of a word", shorten(cells[0]), expected)
    if layout.universal and tag == "_" and (name := layout.names[index or 0]) not in _VALUES:
        expected = f"--label with another of the columns {', '.join(layout.names[2:])}"
        raise BadValue("sentence with a word without a tag", f"{name.upper()} is _", expected)


def _sentence_a_line(
    lines: Iterator[tuple[int, str]], tag: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    for number, line in lines:
        words, _, tags = (part.strip(" ").split(" ") for part in line.partition("\t"))
        if not line.strip():
            continue
        if tag is not None and len(words) != len(tags):
            log.bad(number, _RAGGED, f"{len(words)} words, {len(tags)} tags", "a tag a word")
        elif "" in words:
            log.bad(number, _EMPTY, "two blanks", "one between words")
        else:
            yield TaggingExample(tuple(words), None if tag is None else tuple(tags), line=number)


def is_conll(source: Source, labels: Sequence[str] | None) -> bool:
    """Whether a file whose name says nothing is words in columns and no plain text: with
    `-DOCSTART-`, with the columns of CoNLL-U, or with a known label at the end of every line."""
    lines = _not_blank(source)
    if any(line.startswith(_DOCUMENT) for line in lines):
        return True
    layout = layout_of(source)
    if layout.universal or labels is None:
        return layout.universal
    lines = [line for line in lines if not (layout.numbered and line[:1] == "#")]
    rows = [_BLANKS.split(line.strip(" \t")) for line in lines[bool(layout.names) :]]
    return all(len(row) > 1 and row[-1] in labels for row in rows)


def are_words(columns: Sequence[str]) -> bool:
    """Whether the rows under these names are words, not texts."""
    names = {*map(plain, columns)}
    return all(names & {*chain(*groups)} for groups in (WORDS, SENTENCES))


def word_columns(table: Table, chosen: Columns, *, label: bool) -> tuple[Columns, str]:
    """The columns of words and of tags, and that of sentences."""
    words, tags = table.find(chosen.text, WORDS, "words (word, token)", "--text"), None
    if label:
        tags = table.find(chosen.label, (*TAGS, ("tag",)), "tags (tag, ner_tags)", "--label")
    what = "sentences (sentence_id, Sentence #); expected a word a row with its tag and sentence"
    sentences = table.find(None, SENTENCES, what, "--text", [words, tags])
    return Columns(words, None, tags), sentences


def word_examples(table: Table, columns: Columns, sentences: str) -> Iterator[TaggingExample]:
    """The sentences. One begins where its column changes, or that of the document; where they are
    empty the last goes on. A sentence with a word or a tag that cannot be read is a bad row, at
    that line.

    Raises:
        DataError: a row of another width, or rows within quotes: they may have begun sentences,
            whose other words are not to join the one before.
    """
    names, log = columns.names(), table.log
    document = table.known(DOCUMENTS, "--text")

    def rows() -> Iterator[tuple[tuple[int, int], int, list[str]]]:
        """Sentence and document of each row, its line, and word and tag."""
        documents: dict[str, int] = {}
        key, current = (-1, 0), ""
        for line, values in table.rows([*names, sentences, *([document] if document else [])]):
            cells = [str(each).strip() for each in values]
            name, own = cells[len(names)], cells[-1] if document else ""
            at = documents.setdefault(own, len(documents)) if own else key[1]
            if key[0] < 0 or at != key[1] or (name and name != current):
                key, current = (key[0] + 1, at), name
            yield key, line, cells[: len(names)]

    for (_, at), group in groupby(rows(), key=lambda row: row[0]):
        own = list(group)
        _refuse_gap(log)
        try:
            for _, line, cells in own:
                _check_word(cells, names, log.at(line))
        except BadValue as error:
            log.bad(line, *error.args)
            continue
        words, *tags = zip(*(cells for *_, cells in own), strict=True)
        yield TaggingExample(words, tags[0] if tags else None, at, line=own[0][1])
    _refuse_gap(log)


def _refuse_gap(log: BadRowLog) -> None:
    if gap := log.skipped.get(WRONG_WIDTH):
        raise DataError(
            f"{log.at(gap.lines[0])}: {WRONG_WIDTH}; it may have begun a sentence, so it is not "
            "left out: mend it"
        )


def _check_word(cells: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise BadValue for a word and its tag that cannot be read, DataError for rows in quotes."""
    if not all(cells):
        raise BadValue(_EMPTY, f"column {shorten(names[cells.index('')])}", "a word and its tag")
    if "\n" in cells[0]:
        raise DataError(
            f"{where}: line end in a word: {shorten(cells[0])}; expected a quote that is a word "
            'written as """"'
        )
