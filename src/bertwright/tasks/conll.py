"""Words with tags in columns: a word a line, a blank line between sentences (CoNLL 2000 and 2003).

Columns are separated by tabs if every line has one, else by blanks. `-DOCSTART-` begins a document;
in a file without it all sentences are one document, each with its neighbours in the file. A
sentence a line (`w w w TAB t t t`, as Resume-NER comes) is read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertwright.errors import DataError
from bertwright.tasks.bad_rows import BadRowLog, listed, shorten
from bertwright.tasks.examples import TaggingExample
from bertwright.tasks.sources import Source

_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"
_WORD_NAMES = ("word", "words", "token", "tokens", "form", "text", "char")
_TAG_NAMES = ("tag", "tags", "label", "labels", "ner", "ner_tags", "pos", "upos", "xpos", "chunk")
_LEAST_LINES = 10
"""Of equally many words, to be taken as columns."""
SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".bmes", ".bioes", ".conll03")


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are columns."""

    tabs: bool
    width: int
    """Columns of a line; ragged lines have others."""
    names: tuple[str, ...] = ()
    """What the first line calls the columns, if it does."""
    a_line: bool = False
    """Whether a line is a sentence: its words, a tab, its tags."""

    def split(self, line: str) -> list[str]:
        """The cells of a line."""
        return line.split("\t") if self.tabs else _BLANKS.split(line.strip(" \t"))

    def in_words(self, place: int | None) -> str:
        """What was found; `place` is the column of tags, from 0."""
        if self.a_line:
            return "a sentence a line: words, a tab, tags"
        tags = "" if place is None else f", tags in column {place + 1}"
        return f"CoNLL columns ({self.width}, cut at {'tabs' if self.tabs else 'blanks'}{tags})"

    def place_of(self, column: int | str) -> int | None:
        """The place, from 0, of a column by number from 1 (-1 the last) or by name; None if there
        is none such, or it is the words'."""
        if column in self.names:
            place = self.names.index(str(column))
        elif str(column).removeprefix("-").isdecimal():
            place = int(column) - 1 if int(column) > 0 else self.width + int(column)
        else:
            return None
        return place if 1 <= place < self.width else None


def layout_of(source: Source) -> Layout:
    """Told by the first lines."""
    lines = [line for line in source.head if line.strip(" \t") and not line.startswith(_DOCUMENT)]
    if not lines:
        raise DataError(f"{source.name} has no words; expected a word and its tag a line")
    tabs = all("\t" in line for line in lines)
    if tabs and 2 * sum(map(_is_sentence, lines)) > len(lines):
        return Layout(tabs, 2, a_line=True)
    layout = Layout(tabs, 0)
    first = layout.split(lines[0])
    names = tuple(cell.strip() for cell in first)
    has_names = names[0].lower() in _WORD_NAMES and len(names) > 1 and len(lines) > 1
    has_names = has_names and lines[0] == source.head[0] and names[-1].lower() in _TAG_NAMES
    return Layout(tabs, len(first), names if has_names else ())


def _is_sentence(line: str) -> bool:
    cells = line.split("\t")
    return len(cells) == 2 and len(cells[0].split(" ")) > 1 < len(cells[1].split(" "))


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
        return layout.width - 1 if place is None else place
    place = layout.place_of(asked)
    if place is not None:
        return place
    if not str(asked).removeprefix("-").isdecimal():
        there = listed(layout.names) if layout.names else "no names in its first line"
        raise DataError(
            f"{name} has no column {shorten(asked)} of tags; it has {there}. Name one of them, or "
            f"its number (2 to {layout.width})"
        )
    raise DataError(
        f"{name}: the column of tags cannot be {asked}; a line has {layout.width} columns, the "
        "first the word. Expected 2 or more, or -1 for the last"
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
        yield from _sentence_a_line(source, place, log)
        return
    words: list[str] = []
    tags: list[str] = []
    document = begin = 0
    any_before = broken = False
    for number, line in _with_end(source, layout):
        if line is None or not line.strip(" \t") or line.startswith(_DOCUMENT):
            if words and not broken:
                known = tuple(tags) if place is not None else None
                yield TaggingExample(tuple(words), known, document=document, line=begin)
                any_before = True
            words, tags, broken = [], [], False
            if line is not None and line.startswith(_DOCUMENT):
                document += any_before
                any_before = False
            continue
        begin = begin if words or broken else number
        cells = layout.split(line)
        if len(cells) == layout.width and cells[0].strip() and (place is None or cells[place]):
            words.append(cells[0])
            tags.append(cells[place] if place is not None else "")
        elif not broken:
            _ragged(number, len(cells), layout.width, log)
            broken = True


def _with_end(source: Source, layout: Layout) -> Iterator[tuple[int, str | None]]:
    """The lines, and None after the last."""
    lines = source.lines()
    if layout.names:
        next(lines)
    yield from lines
    yield 0, None


def _ragged(number: int, cells: int, width: int, log: BadRowLog) -> None:
    if cells == width:
        log.bad(number, "sentence with an empty word or tag", "an empty word or tag")
    else:
        log.bad(
            number,
            "sentence with a ragged line",
            f"{cells} columns where the first line has {width}; expected a word and its tags, "
            "and a blank line between sentences",
        )


def _sentence_a_line(source: Source, place: int | None, log: BadRowLog) -> Iterator[TaggingExample]:
    for number, line in source.lines():
        if not line.strip():
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

    So it is with a name as `.conll`, with `-DOCSTART-`, with one word a line and blank lines, with
    equally many on each of ten lines or more, blank lines, and a last column whose values come
    again; or where the last column holds known labels.
    """
    lines = [line for line in source.head if line.strip(" \t")]
    if source.suffix in SUFFIXES or any(line.startswith(_DOCUMENT) for line in lines):
        return True
    rows = [_BLANKS.split(line.strip(" \t")) for line in lines]
    columns = len({len(row) for row in rows}) == 1 and len(lines) < len(source.head)
    recur = 2 * len({row[-1] for row in rows}) <= len(rows) >= _LEAST_LINES
    if columns and (len(rows[0]) == 1 or recur):
        return True
    return labels is not None and all(len(row) > 1 and row[-1] in labels for row in rows)
