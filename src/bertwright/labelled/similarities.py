"""Read pairs for sentence vectors: texts that belong together, scored pairs, labelled pairs.

| form | columns | example |
|---|---|---|
| pairs | two texts | questions with their answers, titles with their bodies |
| triplets | two texts, and hard negatives: columns of a text or of a list of texts | MS MARCO, \
SimCSE, FlagEmbedding, Tevatron, DPR |
| sets | a list of texts that belong together | WikiAnswers |
| scores | two texts, a number | STS-B, SICK |
| labels | two texts, a class | MRPC, QQP, SNLI |

The second text of a pair or a triplet belongs to the first; a list of second texts is as many
pairs. A text may be an object with `title` and `text`. A file without names of columns (JSON
arrays, TSV without a header) has two texts, and perhaps a hard negative. A class or a number is
kept as it is written; its meaning is decided for the whole file (`tasks/similarity/forms.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bertwright.errors import DataError, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import SimilarityExample
from bertwright.labelled.file import File, LabelledTable, Reader, Row, Stream, read_text
from bertwright.rows.bad_rows import BadValue
from bertwright.rows.columns import NAMES, Rows, plain

_NUMBERED = re.compile(r"(hard_)?negatives?_?\d+")
_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_SCORES = ("score", "scores", "relatedness_score", "similarity_score", "similarity")
_DOCUMENTS = ("document_id", "doc_id")
_TRUE = {"true": 1.0, "false": 0.0}


def read_similarities(file: File) -> Stream:
    """Read a table of pairs of texts, with their hard negatives, scores or classes."""
    table = _a_pair_a_row(file.table())
    needs = file.options.require_labels
    chosen = table.chosen
    text, text2 = _pair(table)
    table = replace(table, rows=partial(_rows_of_lists, table.rows, text2))
    label = None
    if needs:
        label = chosen.label and table.named(chosen.label, "--label")
        label = label or table.known("similarities", "--label", [text, text2])
    negatives = _negatives(table, chosen, [text, text2, label]) if needs else ()
    columns = Columns(text, text2, label, (), negatives)
    names = file.options.label_map
    document = next((name for name in table.columns if plain(name) in _DOCUMENTS), None)

    def make(row: Row, id_: str, line: int) -> SimilarityExample | None:
        example = SimilarityExample(
            _text(row[text], text),
            _text(row[text2], text2),
            tuple(each for name in negatives for each in _texts(row[name], name)),
            document="" if document is None else str(row[document]),
            id=id_,
            line=line,
        )
        if label is None:
            return replace(example, label=1.0 if needs else None)
        if plain(label) == "gold_label" and row[label] == "-":  # MNLI, SNLI
            file.log.skipped.add(line, "the annotators did not agree (gold_label is '-')")
            return None
        value = _value(row[label])
        shortest = f"{value:g}" if isinstance(value, float) else value  # 1.0 has the name 1 too
        renamed = names.get(str(row[label]).strip(), names.get(shortest, value))
        return replace(example, label=_value(renamed), is_score=plain(label) in _SCORES)

    read = [*columns.names(), document]
    return table.stream(table.examples(read, make), columns, beside=[document])


def _a_pair_a_row(table: LabelledTable) -> LabelledTable:
    """Return a table of `{"set": [...]}` as one of anchors and lists of positives."""
    if [plain(name) for name in table.columns] != ["set"]:
        return table
    (name,) = table.columns
    if not all(isinstance(cell, list) for (cell,) in table.sample()):
        return table

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        for line, (cell,) in table.rows([name]):
            texts = cell if isinstance(cell, list) else [cell]
            row = {"anchor": texts[0] if texts else None, "positive": texts[1:]}
            yield line, [row[each] for each in names]

    return replace(table, columns=["anchor", "positive"], rows=rows, sample=list)


def _rows_of_lists(
    rows: Rows, column: str, names: Sequence[str], complete: bool = False
) -> Iterator[tuple[int, list[Any]]]:
    """Yield a row for each text of a column of lists of texts."""
    at = names.index(column)
    for line, values in rows(names, complete):
        cell = values[at]
        for each in (cell or [None]) if isinstance(cell, list) else [cell]:
            yield line, [*values[:at], each, *values[at + 1 :]]


def _pair(table: LabelledTable) -> tuple[str, str]:
    """Return the columns of the two texts: those that options name, or a pair with known names."""
    chosen = table.chosen
    if not chosen.texts():
        named = {plain(name): name for name in table.columns}
        for first, second in NAMES["similar pairs"]:
            if first in named and second in named:
                return named[first], named[second]
        if table.columns in (["1", "2"], ["1", "2", "3"]) and chosen.label is None:
            texts = _texts_of(table)
            if names := _probable_header(table):
                raise DataError(
                    f"{table.name} has no known names of columns; its first line seems to name "
                    f"them. Name the two texts: --text {names[0]} --text2 {names[1]}",
                    ("--text", names[0], "--text2", names[1]),
                )
            if texts == table.columns:
                what = "texts that belong together" + (
                    ", and column 3 of hard negatives" if len(texts) == 3 else ""
                )
                table.log.warn(f"it has no names of columns; columns 1 and 2 are read as {what}")
                return "1", "2"
    if chosen.text is None or chosen.text2 is None:
        if not chosen.texts():
            what = "no known pair of columns (anchor and positive, sentence1 and sentence2, ...)"
            raise table.error(what, "--text COLUMN --text2")
        missing = "--text" if chosen.text is None else "--text2"
        raise table.error("one text named only", missing)
    return table.named(chosen.text, "--text"), table.named(chosen.text2, "--text2")


def _probable_header(table: LabelledTable) -> list[str]:
    """Return the first row if it has one ASCII word a cell, as names of columns are, and a later
    cell has several words.
    """
    first, *rest = table.sample()
    names = [str(cell).strip() for cell in first]
    several = any(len(str(cell).split()) > 1 for row in rest for cell in row)
    return names if several and all(map(_WORD.fullmatch, names)) else []


def _texts_of(table: LabelledTable) -> list[str]:
    """Return the columns that hold texts: no numbers, and few that repeat, as labels do."""
    sample = table.sample()
    found = []
    for at, name in enumerate(table.columns):
        cells = [row[at] for row in sample if row[at] not in (None, "")]
        texts = {cell for cell in cells if isinstance(cell, str) and not _is_number(cell)}
        if cells and 2 * len(texts) > len(cells):
            found.append(name)
    return found


def _negatives(table: LabelledTable, chosen: Columns, used: list[str | None]) -> tuple[str, ...]:
    """Return the columns of hard negatives: those that options name, or that have known names; the
    third text of a file without names of columns.
    """
    if chosen.negatives:
        return tuple(table.named(name, "--negatives") for name in chosen.negatives)
    known = tuple(
        name
        for name in table.columns
        if name not in used
        and (plain(name) in NAMES["negatives"][0] or _NUMBERED.fullmatch(plain(name)))
    )
    if not known and table.columns == ["1", "2", "3"] and used == ["1", "2", None]:
        return tuple(name for name in _texts_of(table) if name == "3")
    return known


def _text(value: Any, column: str) -> str:
    """Return a text, or the title and the text of an object."""
    if isinstance(value, dict) and "text" in value:
        value = f"{value.get('title') or ''} {value['text'] or ''}".strip()
    return read_text({column: value}, column)


def _texts(value: Any, column: str) -> list[str]:
    """Return the hard negatives of a cell: a text, a list of texts, or none."""
    cells = value if isinstance(value, list | tuple) else [value]
    texts = []
    for cell in cells:
        if cell is None or cell != cell or cell == "":
            continue
        texts.append(_text(cell, column))
    return texts


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _value(value: Any) -> float | str:
    """Return the number or the class of a pair."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, list | dict):
        raise BadValue("label of a wrong type", shorten(value), "a number or a class")
    name = "" if value is None or value != value else str(value).strip()
    if not name:
        raise BadValue("no label", "", "a number or a class")
    if name.lower() in _TRUE:
        return _TRUE[name.lower()]
    try:
        number = float(name)
    except ValueError:
        return name
    if not math.isfinite(number):
        raise BadValue("label is no number", shorten(value), "a finite number or a class")
    return number


PAIRS = Reader(read_similarities)
