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


def tag_place(layout: Layout, asked: int | str | None, name: str) -> int:
    """Number of the column of tags, from 0: the last, or the one asked for, from 1 or by name.

    Raises:
        DataError: there is no such column, or it is the words'.
    """
    if asked is None:
        return layout.width - 1
    if isinstance(asked, str) and asked in layout.names:
        return layout.names.index(asked)
    try:
        number = int(asked)
    except ValueError:
        there = listed(layout.names) if layout.names else "no names in its first line"
        raise DataError(
            f"{name} has no column {shorten(asked)}; it has {there}. Name one of them, or its "
            f"number (2 to {layout.width})"
        ) from None
    place = number - 1 if number > 0 else layout.width + number
    if not 1 <= place < layout.width:
        raise DataError(
            f"{name}: the column of tags cannot be {number}; a line has {layout.width} columns, "
            "the first the word. Expected 2 or more, or -1 for the last"
        )
    return place


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

    So it is with a name as `.conll`, with `-DOCSTART-`, with one word a line and blank lines, or
    where the last column holds known labels.
    """
    lines = [line for line in source.head if line.strip(" \t")]
    if source.suffix in SUFFIXES or any(line.startswith(_DOCUMENT) for line in lines):
        return True
    rows = [_BLANKS.split(line.strip(" \t")) for line in lines]
    if {len(row) for row in rows} == {1}:
        return len(lines) < len(source.head)
    return labels is not None and all(len(row) > 1 and row[-1] in labels for row in rows)
