"""Words with tags in columns: a word a line, a blank line between sentences (CoNLL 2000 and 2003).

Columns are separated by tabs if every line has one, else by blanks. `-DOCSTART-` begins a document;
in a file without it all sentences are one document, each with its neighbours in the file. A
sentence a line (`w w w TAB t t t`, as Resume-NER comes) is read too.

Where the first column counts the words of each sentence, the second is the word and lines that
begin with `#` are comments: CoNLL-U (Nivre et al. 2020, universaldependencies.org/format.html),
GermEval 2014, Universal NER. Of CoNLL-U the syntactic words are read, those that have tags: ranges
(`1-2`, as written) and empty nodes (`1.1`) are not; `# newdoc` begins a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertwright.errors import DataError
from bertwright.labelled.bad_rows import BadRowLog, listed, shorten
from bertwright.labelled.columns import plain
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.sources import Source

_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"
_WORD_NAMES = ("word", "words", "token", "tokens", "form", "text", "char")
_TAG_NAMES = ("tag", "tags", "label", "labels", "ner", "ner_tags", "pos", "upos", "xpos", "chunk")
_LEAST_LINES = 10
"""Of equally many words, to be taken as columns."""
SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".bmes", ".bioes", ".conll03", ".conllu", ".conllup")
_NUMBER = re.compile(r"(\d+)([-.]\d+)?")
"""Of a word in its sentence; of a range of words, or of an empty node."""
_UNIVERSAL = (
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
)
_UNIVERSAL_SUFFIXES = (".conllu", ".conllup")
_NOTHING_IS_A_VALUE = ("feats", "deps", "misc")
"""Columns of CoNLL-U where `_` says that there is nothing; in others it stands for a missing
value."""
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
    """Place of the word, from 0; 1: its number in the sentence stands before it."""
    comments: bool = False
    """Whether a line that begins a sentence with # (of numbered words: any) is a comment."""
    universal: bool = False
    """Whether it is CoNLL-U."""

    def split(self, line: str) -> list[str]:
        """The cells of a line."""
        return line.split("\t") if self.tabs else _BLANKS.split(line.strip(" \t"))

    def in_words(self, place: int | None) -> str:
        """What was found; `place` is the column of tags, from 0."""
        if self.a_line:
            return "a sentence a line: words, a tab, tags"
        if self.universal:
            return "CoNLL-U" + ("" if place is None else f", tags in {self.names[place].upper()}")
        tags = "" if place is None else f", tags in column {place + 1}"
        return f"CoNLL columns ({self.width}, cut at {'tabs' if self.tabs else 'blanks'}{tags})"

    def place_of(self, column: int | str) -> int | None:
        """The place, from 0, of a column by number from 1 (-1 the last) or by name; None if there
        is none such, or it is the words' or their numbers'."""
        names = [plain(name) for name in self.names]
        if plain(str(column)) in names:
            place = names.index(plain(str(column)))
        elif str(column).removeprefix("-").isdecimal():
            place = int(column) - 1 if int(column) > 0 else self.width + int(column)
        else:
            return None
        return place if self.word < place < self.width else None


def layout_of(source: Source) -> Layout:
    """Told by the first lines.

    Raises:
        DataError: there are no words, or they do not come first; columns of CoNLL-U Plus that do
            not begin with ID and FORM.
    """
    lines = [line for line in source.head if line.strip(" \t") and not line.startswith(_DOCUMENT)]
    bare = [line for line in lines if not line.startswith("#")]
    if not lines or (source.suffix in _UNIVERSAL_SUFFIXES and not bare):
        raise DataError(f"{source.name} has no words; expected a word and its tag a line")
    names = _universal_names(source, bare)
    if names:
        return Layout(True, len(names), names, word=1, comments=True, universal=True)
    tabs = all("\t" in line for line in bare or lines)
    rows = [Layout(tabs, 0).split(line) for line in bare]
    if rows and _is_numbered(rows[1:] if _is_header(rows[0], 1) else rows):
        word, comments = 1, True
    else:
        word, comments = 0, _has_comments(source)
        lines = bare if comments else lines
        tabs = all("\t" in line for line in lines)
        rows = [Layout(tabs, 0).split(line) for line in lines]
    a_line = tabs and not word and 2 * sum(map(_is_sentence, lines)) > len(lines)
    width = 2 if a_line else len(rows[0])
    first = tuple(cell.strip() for cell in rows[0])
    begins = "\t".join(rows[0]) == "\t".join(Layout(tabs, 0).split(source.head[0]))
    headed = begins and len(rows) > 1 and _is_header(rows[0], word)
    if tabs and begins and not headed and first[0].lower() in _TAG_NAMES:
        words = [cell for cell in first[1:] if cell.lower() in _WORD_NAMES[:5]]
        if words:
            raise DataError(
                f"{source.name}: the first line names the columns {listed(first)}; expected "
                f"{shorten(words[0])} as the first, and the tag as the last"
            )
    return Layout(tabs, width, first if headed else (), a_line, word, comments)


def _universal_names(source: Source, lines: Sequence[str]) -> tuple[str, ...]:
    """The columns of CoNLL-U, of which its name or ten columns with numbered words tell; those of
    CoNLL-U Plus stand in its first line. Empty for other files."""
    if found := _GLOBAL.fullmatch(source.head[0]):
        names = tuple(found[1].lower().split())
        if names[:2] != _UNIVERSAL[:2] or len(names) < 3:
            raise DataError(
                f"{source.name} has the columns {listed(found[1].split())}; expected ID, FORM and "
                "others in CoNLL-U Plus"
            )
        return names
    rows = [line.split("\t") for line in lines]
    ten = {len(row) for row in rows} == {len(_UNIVERSAL)} and _is_numbered(rows)
    return _UNIVERSAL if ten or source.suffix in _UNIVERSAL_SUFFIXES else ()


def _is_numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of three cells or more counts: each is one above the one before, or begins
    anew."""
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


def _is_even(line: str) -> bool:
    """Whether there are as many tags as words."""
    words, _, tags = line.partition("\t")
    return len(words.split()) == len(tags.split())


def tag_place(
    source: Source, layout: Layout, asked: int | str | None = None, hint: str | None = None
) -> int:
    """Number of the column of tags, from 0.

    Args:
        source: the file.
        layout: of its lines.
        asked: the column that was asked for, by number from 1 or by name.
        hint: that of the training file, taken where it is there; else the last one.

    Raises:
        DataError: there is one column only; that asked for is not there, or is the words'.
    """
    name = source.name
    if layout.width < 2:
        raise DataError(
            f"{name} has one column; expected a word and its tag a line, with a blank or a tab "
            f"between. It begins with {listed(source.head[:1])}"
        )
    if asked is None:
        place = None if hint is None else layout.place_of(hint)
        usual = layout.names.index("upos") if "upos" in layout.names else layout.width - 1
        return usual if place is None else place
    place = layout.place_of(asked)
    if place is not None:
        return place
    if not str(asked).removeprefix("-").isdecimal():
        there = listed(layout.names) if layout.names else "no names in its first line"
        raise DataError(
            f"{name} has no column {shorten(asked)} of tags; it has {there}. Name one of them, or "
            f"its number ({layout.word + 2} to {layout.width})"
        )
    raise DataError(
        f"{name}: the column of tags cannot be {asked}; a line has {layout.width} columns, the "
        f"{'second' if layout.word else 'first'} the word. Expected {layout.word + 2} or more, or "
        "-1 for the last"
    )


def conll_examples(
    source: Source, layout: Layout, place: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    """The sentences of a file.

    Args:
        place: of the column of tags, from 0; None: tags are not read.

    Raises:
        DataError: a ragged line where `log` refuses them; names it.
    """
    if layout.a_line:
        yield from _sentence_a_line(source, layout, place, log)
        return
    words: list[str] = []
    tags: list[str] = []
    document = begin = last = 0
    any_before = open_ = broken = False
    for number, line in _with_end(source, layout):
        if line is None or not line.strip(" \t") or line.startswith(_DOCUMENT):
            if words and not broken:
                known = tuple(tags) if place is not None else None
                yield TaggingExample(tuple(words), known, document=document, line=begin)
                any_before = True
            words, tags, open_, broken = [], [], False, False
            if line is not None and line.startswith(_DOCUMENT):
                document += any_before
                any_before = False
            continue
        if layout.comments and line.startswith("#") and (layout.word or not open_):
            open_ = True
            if _NEW_DOCUMENT.match(line):
                document += any_before
                any_before = False
            continue
        open_ = True
        cells = layout.split(line)
        counted = _NUMBER.fullmatch(cells[0]) if layout.word else None
        if counted and counted[2] and len(cells) == layout.width:
            continue  # as written, or left out in speech: no word of the sentence's own
        begin = begin if words or broken else number
        if broken:
            continue
        wrong = _wrong(cells, layout, place, last + 1 if words else None)
        if wrong is None:
            last = int(cells[0]) if layout.word else 0
            words.append(cells[layout.word])
            tags.append(cells[place] if place is not None else "")
        else:
            log.bad(number, *wrong)
            broken = True


def _with_end(source: Source, layout: Layout) -> Iterator[tuple[int, str | None]]:
    """The lines below the header, and None after the last."""
    lines = source.lines()
    if layout.names and not layout.universal:
        next(lines)
    yield from lines
    yield 0, None


def _wrong(
    cells: Sequence[str], layout: Layout, place: int | None, expected: int | None
) -> tuple[str, str] | None:
    """What is wrong with the line of a word, in few words and in a sentence; None: nothing.

    Args:
        place: of the tag.
        expected: the number of the word; None: 0 or 1.
    """
    if len(cells) != layout.width:
        first = "CoNLL-U" if layout.universal else "the first line"
        return (
            "sentence with a ragged line",
            f"{len(cells)} columns where {first} has {layout.width}; expected a word and its tags"
            f"{', cut at tabs' if layout.tabs else ''}, and a blank line between sentences",
        )
    tag = None if place is None else cells[place]
    if not cells[layout.word].strip() or tag == "":
        return "sentence with an empty word or tag", "an empty word or tag"
    if layout.word and cells[0] not in (["0", "1"] if expected is None else [str(expected)]):
        return (
            "sentence with a wrong number of a word",
            f"the number of the word is {shorten(cells[0])}; expected {expected or 1}, and a blank "
            "line between sentences",
        )
    if layout.universal and tag == "_" and layout.names[place or 0] not in _NOTHING_IS_A_VALUE:
        return (
            "sentence with a word without a tag",
            f"{layout.names[place or 0].upper()} is _, which is no tag; --label chooses another of "
            f"the columns {', '.join(layout.names[2:])}",
        )
    return None


def _sentence_a_line(
    source: Source, layout: Layout, place: int | None, log: BadRowLog
) -> Iterator[TaggingExample]:
    for number, line in _with_end(source, layout):
        if line is None or not line.strip():
            continue
        words, _, tags = (part.strip(" ").split(" ") for part in line.partition("\t"))
        if place is not None and len(words) != len(tags):
            log.bad(
                number, "sentence with a ragged line", f"{len(words)} words but {len(tags)} tags"
            )
        elif "" in words:
            log.bad(number, "sentence with an empty word or tag", "two blanks between words")
        else:
            yield TaggingExample(
                tuple(words), tuple(tags) if place is not None else None, line=number
            )


def is_conll(source: Source, labels: Sequence[str] | None) -> bool:
    """Whether a file without labels that must be there is words in columns, and no plain text.

    So it is with a name as `.conll`, with `-DOCSTART-`, with numbered words and tabs as in CoNLL-U,
    with as many tags as words behind a tab, with one word a line and blank lines, with
    equally many on each of ten lines or more, blank lines, and a last column whose values come
    again; or where the last column holds known labels.
    """
    lines = [line for line in source.head if line.strip(" \t")]
    if source.suffix in SUFFIXES or any(line.startswith(_DOCUMENT) for line in lines):
        return True
    layout = layout_of(source)
    if (layout.word and layout.tabs) or (layout.a_line and all(map(_is_even, lines))):
        return True
    if layout.comments:
        lines = [line for line in lines if not line.startswith("#")]
    lines = lines[1:] if layout.names else lines
    rows = [_BLANKS.split(line.strip(" \t")) for line in lines]
    columns = len({len(row) for row in rows}) == 1 and len(lines) < len(source.head)
    recur = 2 * len({row[-1] for row in rows}) <= len(rows) >= _LEAST_LINES
    if columns and (len(rows[0]) == 1 or recur):
        return True
    return labels is not None and all(len(row) > 1 and row[-1] in labels for row in rows)
