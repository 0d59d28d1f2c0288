"""Read tagged words from CoNLL columns, CoNLL-U and tables of words, one word a line or row.

- CoNLL columns (CoNLL 2000 and 2003) are separated by tabs if every line has one, else by blanks.
- Lines before a sentence that begin with `#` and lack the columns of a word are comments
  (MultiCoNER).
- If the first column numbers the words of a sentence, the second holds the words and all lines that
  begin with `#` are comments: CoNLL-U (Nivre et al. 2020), GermEval 2014. Ranges (`1-2`) and empty
  nodes (`1.1`) of CoNLL-U are skipped. The last column of GermEval has the names within names, so
  the tags are in the column before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from shlex import quote

from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.file import File, LabelledTable, Stream, other_kind
from bertwright.rows.bad_rows import BadRowLog, BadValue
from bertwright.rows.columns import NAMES, plain
from bertwright.rows.lines import TextLines
from bertwright.rows.parts import part_of
from bertwright.rows.tables import WRONG_WIDTH

_BLANKS = re.compile(r"[ \t]+")
_NUMBER = re.compile(r"(\d+)([-.]\d+)?")  # numbers a word, a range of words, or an empty node
_DOCUMENT = "-DOCSTART-"
_ENTITY_TAG = re.compile(r"[BIESMLU]-.+", re.DOTALL)
_NEW_DOCUMENT = re.compile(r"# *newdoc\b")
# types of chunks: those of CoNLL-2000 and of TreeTagger
_CHUNKS = {"ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"}
_CHUNKS |= {"NC", "PC", "VC"}
_UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_VALUES = ("feats", "deps", "misc")  # columns where `_` is a value; elsewhere a value is missing
_CONLL_2012 = (
    "{name} is CoNLL-2012 (OntoNotes), whose names are in brackets; expected a tag for each word. "
    "Write its words and names as such: awk '/^#/ {{next}} !NF {{print; next}} {{n = $11; "
    'if (n ~ /^\\(/) {{e = n; gsub(/[(*)]/, "", e); t = "B-" e}} else t = e ? "I-" e : "O"; '
    'print $4 "\\t" t; if (n ~ /\\)$/) e = ""}}\' {quoted} > {new}'
)
_SENTENCES = (
    "{name} has a sentence and its tags in each line; expected a word and its tag. Write them so: "
    'awk -F\'\\t\' \'{{n = split($1, w, " "); split($2, t, " "); for (i = 1; i <= n; i++) '
    'print w[i] "\\t" t[i]; print ""}}\' {quoted} > {new}'
)
_Word = tuple[tuple[int, int], int, list[str]]  # sentence and document by number, line, cells


@dataclass(frozen=True)
class ColumnLayout:
    """How lines are divided into columns."""

    tabs: bool
    width: int
    """The number of columns of a line; other lines are ragged."""
    names: tuple[str, ...] = ()
    """The names of the columns, from the first line or from CoNLL-U; empty if there are none."""
    word: int = 0
    """The index of the column of words, from 0."""
    numbered: bool = False
    """Whether the first column numbers the words of each sentence."""
    universal: bool = False  # CoNLL-U
    usual_word: int = 0
    """The column of words that is used unless an option or the tags point to another."""
    tags: frozenset[str] = frozenset()
    """The values of the last column in the first lines if all are entity tags, else empty."""

    def is_comment(self, line: str, begins: bool) -> bool:
        """Return whether a line is a comment. `begins` says whether it stands before a sentence.

        Where words are numbered, every line that begins with # is one. Otherwise it must stand
        before a sentence and lack the columns of a word, or a tag in the last column.
        """
        if line[:1] != "#" or self.numbered:
            return line[:1] == "#"
        if not begins:
            return False
        cells = _split(line, self.tabs)
        if len(cells) != self.width:
            return len(cells) > 1
        is_pair = len(cells) > 2 and (cells[2] == "=" or "=" in cells[-1][1:-1])
        return bool(_BLANKS.match(line[1:])) and (
            is_pair if not self.tags else cells[-1] not in self.tags and not is_tag(cells[-1])
        )


def read_conll(file: File, *, universal: bool = False) -> Stream:
    """Read the sentences of CoNLL columns, or of CoNLL-U if `universal` or if they look like it."""
    file.refuse_unused(("text", "label"), "with one word a line")
    lines = file.rows.lines
    layout = _layout(lines, universal)
    if file.options.require_labels and _are_texts(lines, layout):
        raise other_kind(file.log.name, "a text in each line and no words", "tagging")
    layout, tag = _chosen_columns(file, layout)
    columns = [layout.word]
    form = "CoNLL-U" if layout.universal else f"CoNLL columns ({layout.width})"
    if layout.word != layout.usual_word:
        form += (
            f", words in column {layout.names[layout.word] if layout.names else layout.word + 1}"
        )
    if tag is not None:
        columns.append(tag)
        form += f", tags in column {layout.names[tag] if layout.names else tag + 1}"
    check = partial(_check, layout, columns[1:])
    examples = _sentences(_words(lines, layout, file.log), columns, file.log, check)
    chosen = file.chosen
    if layout.word != layout.usual_word:  # for files that are read like this one
        label = file.chosen.label or (None if tag is None else str(tag + 1))
        chosen = Columns(str(layout.word + 1), None, label)
    return file.stream(examples, chosen, form)


def _are_texts(source: TextLines, layout: ColumnLayout) -> bool:
    """Return whether the lines are texts with labels: most have blanks where words are, and no
    blank line separates sentences.
    """
    if not layout.tabs or layout.width < 2 or layout.universal:
        return False
    head = [*source.head]
    lines = head[: len(head) - head[::-1].index(_not_blank(source)[-1])]
    rows = [line.split("\t") for line in lines[bool(layout.names) :]]
    texts = [row for row in rows if len(row) == layout.width and " " in row[layout.word].strip()]
    return all(map(str.strip, lines)) and 2 * len(texts) > len(rows)


def _layout(source: TextLines, universal: bool = False) -> ColumnLayout:
    """Return the layout of the first lines. They are CoNLL-U with `universal`, or if there are ten
    columns with numbered words.
    """
    lines = [line for line in _not_blank(source) if not line.startswith(_DOCUMENT)]
    if not lines:
        raise DataError(f"{source.name} has no words; expected a word and its tag in each line")
    if any(line.startswith("#begin document") for line in lines):
        name, new = source.name, f"{Path(source.name).stem}-names.conll"
        raise DataError(_CONLL_2012.format(name=name, quoted=quote(name), new=quote(new)))
    lines = [line for line in lines if line[0] != "#"] or lines
    tabs = all("\t" in line for line in lines)
    rows = [_split(line, tabs) for line in lines]
    sentences = [row for row in rows if len(row) == 2 and all(" " in cell for cell in row)]
    if tabs and 2 * len(sentences) > len(rows) and all(map(_are_as_many, sentences)):
        name, new = source.name, f"{Path(source.name).stem}-words.conll"
        raise DataError(_SENTENCES.format(name=name, quoted=quote(name), new=quote(new)))
    word = _word_of_header(rows[0])
    body = rows[word is not None :]
    counts = [row[0] for row in body if len(row) > 2 and _NUMBER.fullmatch(row[0])]
    numbered = len(counts) == len(body) and "1" in counts and {*counts} != {"1"}
    if universal or (tabs and numbered and {*map(len, rows)} == {len(_UNIVERSAL)}):
        return ColumnLayout(True, len(_UNIVERSAL), _UNIVERSAL, 1, True, True, usual_word=1)
    names = () if word is None else tuple(rows[0])
    word = int(numbered) if word is None else word
    width = len(rows[0])
    last = {row[-1] for row in body if len(row) == width}
    tags = frozenset(last if width > 1 and all(map(is_tag, last)) else ())
    return ColumnLayout(tabs, width, names, word, numbered, usual_word=word, tags=tags)


def _are_as_many(row: Sequence[str]) -> bool:
    words, tags = (cell.split() for cell in row)
    return len(words) == len(tags)


def _chosen_columns(file: File, layout: ColumnLayout) -> tuple[ColumnLayout, int | None]:
    """Return the layout with its column of words, and the column of tags (None if tags are not
    read).

    Columns named by options come first. Otherwise, if the last column does not hold entity tags but
    exactly one other column does, that column holds the tags, unless it is that of the words, which
    is an error.
    """
    options, chosen = file.options, file.chosen
    word = None if chosen.text is None else _column(layout, chosen.text)
    if chosen.text is not None and word is None:
        raise _no_column(file, layout, "words", chosen.text, "--text")
    if word is None and options.hint.text is not None and layout.width > 1:
        word = _column(layout, options.hint.text)  # as in training
    entities = _entity_column(file, layout)
    if word is None and chosen.label is None and entities is not None:
        if entities == layout.word:
            raise _other_order(file, layout, entities)
        if options.require_labels:
            column, last = entities + 1, layout.width
            file.log.warn(
                f"column {column} has tags of entities and the last has not; taken is column "
                f"{column} for the tags. If that is wrong: --label {last}"
            )
        return layout, entities if options.require_labels else None
    layout = layout if word is None else replace(layout, word=word)
    if not options.require_labels:
        return layout, None
    if chosen.label is None and word is not None and layout.width > 1:
        others = [at for at in range(layout.numbered, layout.width) if at != word]
        hinted = _column(layout, options.hint.label or "")
        return layout, next(
            at for at in (entities, hinted, others[-1]) if at is not None and at != word
        )
    return layout, _tag_index(file, layout)


def _other_order(file: File, layout: ColumnLayout, entities: int) -> DataError:
    """Return the error for tags of entities in the column where the words are expected."""
    words = next(at for at in range(layout.width) if at != entities)
    options: tuple[str, ...] = ("--text", str(words + 1))
    if file.options.require_labels:
        options += ("--label", str(entities + 1))
    return DataError(
        f"{file.log.name}: column {entities + 1} has tags of entities; expected the words there, "
        f"and their tags last. Name the columns: {' '.join(options)}",
        options,
    )


def _column(layout: ColumnLayout, name: str) -> int | None:
    """Return the index of the column with this name or number (from 1), or None."""
    names = [*map(plain, layout.names)]
    if plain(name) in names:
        return names.index(plain(name))
    index = int(name) - 1 if name.isdecimal() else -1
    return index if layout.numbered <= index < layout.width else None


def _entity_column(file: File, layout: ColumnLayout) -> int | None:
    """Return the one column that holds only entity tags; None if there is not exactly one, or it is
    the last.
    """
    if layout.width < 2 or layout.universal or layout.names:
        return None
    matches = [at for at, values in enumerate(_values_of(file, layout)) if _are_entities(values)]
    return matches[0] if len(matches) == 1 and matches[0] != layout.width - 1 else None


def _values_of(file: File, layout: ColumnLayout) -> list[set[str]]:
    """Return the values of each column in the first lines."""
    rows = [
        cells
        for line in _not_blank(file.rows.lines)
        if not line.startswith((_DOCUMENT, "#"))
        and len(cells := _split(line, layout.tabs)) == layout.width
    ]
    return [{row[at] for row in rows} for at in range(layout.width)]


def _are_entities(values: set[str]) -> bool:
    """Return whether the values of a column are tags of entities, not of chunks alone (NP, VP)."""
    types = {value[2:] for value in values if value != "O"}
    return len(values) > 1 and all(map(is_tag, values)) and bool(types) and not types <= _CHUNKS


def is_tag(value: str) -> bool:
    """Return whether a value is O, or a letter of a scheme with a type, such as B-PER."""
    return value == "O" or bool(_ENTITY_TAG.fullmatch(value))


def _no_column(file: File, layout: ColumnLayout, what: str, name: str, option: str) -> DataError:
    there = listed(layout.names or range(1, layout.width + 1))
    return DataError(
        f"{file.log.name} has no column {shorten(name)} of {what}; it has {there}. Name one: "
        f"{option} COLUMN",
        (option, "COLUMN"),
    )


def _not_blank(source: TextLines) -> list[str]:
    return [line for line in source.head if line.strip(" \t")]


def _split(line: str, tabs: bool) -> list[str]:
    return line.split("\t") if tabs else _BLANKS.split(line.strip(" \t"))


def _word_of_header(cells: Sequence[str]) -> int | None:
    """Return the index of the words' column if the cells are a header with words and tags, else
    None.
    """
    names = [*map(plain, cells)]
    words = (at for at, name in enumerate(names) if name in {*chain(*NAMES["words"]), "text"})
    return next(words, None) if {*chain(*NAMES["tags"])}.intersection(names) else None


def _tag_index(file: File, layout: ColumnLayout) -> int:
    """Return the index of the column of tags, from 0.

    It is the column that an option names or numbers from 1, else that of the training file if it
    exists, else UPOS or the last column.
    """
    chosen, width, names = file.chosen.label, layout.width, [*map(plain, layout.names)]
    if chosen is None and _has_nested(file, layout):
        file.log.warn(
            f"columns {width - 1} and {width} have tags of entities; taken is column {width - 1}, "
            f"as column {width} has the names within names in GermEval. If that is wrong: "
            f"--label {width}"
        )
        return width - 2
    usual = ("upos" if layout.universal else str(width), str(width - 1))  # the last may be the word
    for column in (file.options.hint.label or "", *usual) if chosen is None else (chosen,):
        index = int(column) - 1 if column.isdecimal() else -1
        if plain(column) in names:
            index = names.index(plain(column))
        if layout.numbered <= index < width and index != layout.word:
            return index
    which = "" if chosen is None else f" {shorten(chosen)}"
    raise DataError(
        f"{file.log.name} has no column{which} of tags beside the word, column {layout.word + 1} "
        f"of {listed(names or range(1, width + 1))}; name one: --label COLUMN",
        ("--label", "COLUMN"),
    )


def _has_nested(file: File, layout: ColumnLayout) -> bool:
    """Return whether the last two of four columns or more have tags of entities, behind numbered
    words, as in GermEval 2014.
    """
    if not layout.numbered or layout.universal or layout.names or layout.width < 4:
        return False
    if file.options.as_scheme == "none":  # a file of predictions, which are in the last column
        return False
    *_, outer, inner = _values_of(file, layout)
    return _are_entities(outer) and all(map(is_tag, inner)) and not file.options.hint.label


def _words(source: TextLines, layout: ColumnLayout, log: BadRowLog) -> Iterator[_Word]:
    sentence, document, is_new, begins = 0, 0, True, True
    for number, line in source.numbered():
        is_comment = layout.is_comment(line, begins)
        begins = is_comment or not line.strip(" \t") or line.startswith(_DOCUMENT)
        if is_comment and not layout.numbered:
            log.skipped.add(number, "comment lines, which begin with #")
        if line.startswith(_DOCUMENT) or (is_comment and _NEW_DOCUMENT.match(line)):
            document += not is_new
            sentence, is_new = sentence + 1, True
        elif not line.strip(" \t"):
            sentence += 1
        elif not is_comment:
            cells = _split(line, layout.tabs)
            other = _NUMBER.fullmatch(cells[0]) if layout.numbered else None
            if tuple(cells) == layout.names or (other and other[2] and len(cells) == layout.width):
                continue  # the header; a range or an empty node, no word of the sentence's own
            is_new = False
            yield (sentence, document), number, cells


def _sentences(
    words: Iterable[_Word],
    columns: Sequence[int],
    log: BadRowLog,
    check: Callable[[list[str], list[str] | None], None] | None = None,
) -> Iterator[TaggingExample]:
    """Yield the sentences of words; `columns` are the indices of the word and of its tag.

    A sentence is a bad row if one of its words is empty, or fails the `check` after the word before
    it.
    """
    for (_, document), group in groupby(words, key=lambda each: each[0]):
        rows = [(line, cells) for _, line, cells in group]
        before = None
        try:
            for line, cells in rows:  # noqa: B007 - the log names the last one
                if check:
                    check(cells, before)
                if not (cells[columns[0]].strip() and cells[columns[-1]].strip()):
                    raise BadValue("sentence with an empty word or tag", "", "a word and its tag")
                before = cells
        except BadValue as error:
            log.bad(line, *error.args)
            continue
        spelled, *tags = (tuple([cells[column] for _, cells in rows]) for column in columns)
        yield TaggingExample(spelled, tags[0] if tags else None, document, line=rows[0][0])


def _check(
    layout: ColumnLayout, tag: list[int], cells: list[str], before: list[str] | None
) -> None:
    """Raise BadValue if a line does not have the columns of a word that follows the word
    `before`.
    """
    if len(cells) != layout.width:
        tabs = ", separated by tabs" if layout.tabs else ""
        expected = f"{layout.width}{tabs}, and a blank line between sentences"
        raise BadValue("sentence with a ragged line", f"{len(cells)} columns", expected)
    numbers = ["0", "1"] if before is None else [str(int(before[0]) + 1)] if layout.numbered else []
    if layout.numbered and cells[0] not in numbers:
        expected = f"{numbers[-1]}, and a blank line between sentences"
        raise BadValue("sentence with a wrong number of a word", shorten(cells[0]), expected)
    name = layout.names[tag[0]] if layout.universal and tag else "misc"
    if name not in _VALUES and cells[tag[0]] == "_":
        expected = f"--label with another of the columns {', '.join(layout.names[2:])}"
        raise BadValue("sentence with a word without a tag", f"{name.upper()} is _", expected)


def is_conll(source: TextLines, labels: Sequence[str] | None) -> bool:
    """Return whether a file, whose name does not show its format, has one word per line and is not
    plain text.

    This is the case if it has `-DOCSTART-`, the columns of CoNLL-U, or a known label in every line.
    """
    lines = _not_blank(source)
    if any(line.startswith(_DOCUMENT) for line in lines):
        return True
    layout = _layout(source)
    if layout.universal or labels is None:
        return layout.universal
    rows = [line.split() for line in lines if not layout.is_comment(line, True)]
    rows = rows[bool(layout.names) :]
    return any(all(len(row) > 1 and row[at] in labels for row in rows) for at in (-1, 0))


def are_words(columns: Sequence[str]) -> bool:
    """Return whether a table with these columns has one word per row, and not texts."""
    names = {*map(plain, columns)}
    return all(names & {*chain(*NAMES[what])} for what in ("words", "sentences"))


def read_words(table: LabelledTable) -> Stream:
    """Read the sentences of a table of words.

    A sentence begins where the value of its column, or that of the document, changes. Empty cells
    continue the sentence.
    """
    log = table.log
    has_words = table.chosen.text is not None or table.known("words", "--text")
    if not has_words and table.known("texts", "--text") and table.known("labels", "--label"):
        raise other_kind(log.name, f"texts and labels ({listed(table.columns)})", "tagging")
    # A skipped row might have begun a sentence, whose words would then join the sentence before it.
    log.never = WRONG_WIDTH
    words = table.find(table.chosen.text, "words", "--text")
    columns = Columns(words, None, table.label("tags"))
    if table.known("sentences", "--text") is None:
        at = table.columns.index(words)
        code = "import csv; [print(*r, sep='\\t', end='\\n\\n' if r[%d] in ('.', '?') else '\\n')"
        code = f"{code % at} for r in csv.reader(open({table.name!r}))]"
        raise DataError(
            f"{table.name} has a word a row and no column that says which sentence a word is of "
            f"(sentence_id); it has {listed(table.columns)}. Write a blank line after each "
            f"sentence, as here after each full stop: "
            f'python -c "{code}" > {quote(Path(table.name).stem)}.conll'
        )
    sentences = table.find(None, "sentences", "--text", columns.names())
    document = table.known("documents", "--text")
    names = columns.names()
    split = None if table.split in (*names, sentences, document) else table.split
    more = [each for each in (document, split) if each is not None]
    table_rows = table.rows([*names, sentences, *more])

    def rows() -> Iterator[_Word]:
        documents: dict[str, int] = {}
        key, current = (-1, 0), ""
        for line, values in table_rows:
            cells = [str(each).strip() for each in values]
            if split and (cell := cells.pop()):  # empty cells continue a sentence
                if (part := part_of(cell)) is None:
                    what = f"{shorten(cell)} in the column {split}"
                    raise DataError(f"{log.at(line)}: {what}; expected train, dev or test")
                table.parts[line] = part
            if "\n" in cells[0]:
                raise DataError(
                    f"{log.at(line)}: line end in a word: {shorten(cells[0])}; expected a quote "
                    'that is a word written as """"'
                )
            name, own = cells[len(names)], cells[-1] if document else ""
            at = documents.setdefault(own, len(documents)) if own else key[1]
            if key[0] < 0 or at != key[1] or (name and name != current):
                key, current = (key[0] + 1, at), name
            yield key, line, cells

    examples = _sentences(rows(), range(len(names)), log)
    return table.stream(examples, columns, sentences, beside=[document])
