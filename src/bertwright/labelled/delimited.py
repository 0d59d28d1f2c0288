"""TSV and CSV, with or without a header.

TSV has no quoting: GLUE's files hold quote characters as text. CSV quotes as the module csv reads;
its fields may be separated by semicolons or tabs too.

A file has a header if its first line holds a column that was asked for or whose name is known.
Without one its columns are called 1, 2, ... and are told by their shape: GLUE's CoLA, or a column
whose values recur (classes), or which is all numbers (regression).
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from bertwright.errors import DataError
from bertwright.labelled.bad_rows import BadRowLog, listed
from bertwright.labelled.columns import (
    CLASSES,
    IDS,
    NUMBERS,
    PAIRS,
    SENTENCES,
    TEXTS,
    Columns,
    plain,
    split_label,
)
from bertwright.labelled.sources import HEAD_LINES, Source
from bertwright.labelled.tables import Row, Table, check_header
from bertwright.text.corpus.rows import csv_delimiter

WRONG_WIDTH = "wrong number of fields"
_MAX_FIELD = 1 << 28
_MAX_CLASS_NAME = 60
_NAME = re.compile(r"\s?[\w#.-]+( [\w#.-]+)?\s?")
_MARK = re.compile(r"[*?#%]{0,3}")
"""What linguists wrote before a sentence; "*" in nearly all cases."""

_OTHERS = ("context", "sent1", "choices", "tokens", "token", "word", "tag", "ner_tags")
KNOWN = frozenset([*itertools.chain(*TEXTS, *CLASSES, *NUMBERS, *PAIRS, *SENTENCES), *_OTHERS])
"""Names by which a header is known."""


def delimiter_of(source: Source) -> str | None:
    """What separates the fields; None if there is nothing like it."""
    place, first = next((i, line) for i, line in enumerate(source.head) if line.strip())
    if source.suffix == ".csv":
        mark, alone = csv_delimiter(first)
        if alone:
            source.head[place] = ""  # rows keep their lines
        return mark
    if source.suffix == ".tsv" or "\t" in first:
        return "\t"
    return None


def is_csv(source: Source, named: Sequence[str]) -> bool:
    """Whether a file of another name, or without one, begins with a header of CSV: short cells, two
    or more of them known or `named`."""
    first, *below = [line for line in source.head if line.strip()]
    if source.suffix in (".csv", ".tsv") or "\t" in first or source.looks_like_json():
        return source.suffix == ".csv"
    mark, alone = csv_delimiter(first)
    if alone:
        return True
    cells = next(csv.reader([first], delimiter=mark), [])
    known = {*KNOWN, *IDS, *map(plain, named)}
    return (
        bool(below)
        and sum(plain(cell) in known for cell in cells) > 1
        and all(map(_NAME.fullmatch, cells))
        and len(next(csv.reader([below[0]], delimiter=mark), [])) > 1
    )


def delimited_table(
    source: Source,
    delimiter: str,
    asked: Sequence[str],
    hint: Columns,
    log: BadRowLog,
    *,
    kind: str,
    label: bool,
    pair: bool | None,
) -> Table:
    """The table of a TSV or CSV file.

    Args:
        asked: columns that were asked for.
        hint: columns of the training file, which this one may have too; without a header they count
            if they name all that is needed.
        kind: of the task.
        label: whether a label must be there.
        pair: whether there are two texts.

    Raises:
        DataError: a doubled name in the header; no header, and the shape tells nothing.
    """
    quoted = source.suffix == ".csv"
    format = "CSV" if quoted else "TSV"
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
    if quoted:
        lines = (line + "\n" for line in source.head)
        head = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        if len(head) > 1 and len(source.head) == HEAD_LINES:
            head.pop()  # may be cut within quotes
    else:
        head = [line.split(delimiter) for line in source.head if line]
    first = [cell.strip() for cell in head[0]]
    asked = [part for name in asked for part in split_label(name, first)]
    hinted = [name for name in (hint.text, hint.text2) if name]
    if label and hint.label:
        hinted += split_label(hint.label, first)
    headed = has_header(head, [*asked, *hinted])
    guessed: dict[str, str] = {}
    if headed:
        columns = first
        check_header(columns, source.name)
    else:
        columns = [str(number) for number in range(1, len(first) + 1)]
        if not asked and hint.text and (hint.label or not label) and set(hinted) <= set(columns):
            asked = hinted
        if not asked:
            guessed = _guess(head, kind, label=label, pair=pair)
        if not guessed and not set(asked) <= set(columns):
            raise DataError(
                f"{source.name} has no column {listed(asked)}; its first line is {listed(first)}. "
                "If this is the header, ask for a name in it; if there is none, for a number: "
                "--text 1 --label 2"
            )
        if not guessed and not asked:
            raise DataError(
                f"{source.name}: no name in the first line is known: {listed(first)}. If this is "
                "the header, name the columns: --text NAME --label NAME; if there is none, number "
                "them: --text 1 --label 2"
            )
        format = "GLUE's CoLA" if guessed.get("text") == "4" else f"{format} without a header"
    split = _csv_rows(source, delimiter) if quoted else _tsv_rows(source)
    return Table(
        source.name,
        format,
        columns,
        _picker(columns, split, log, headed=headed, quoted=quoted),
        guessed,
    )


def _picker(
    columns: list[str],
    split: Iterator[tuple[int, list[str]]],
    log: BadRowLog,
    *,
    headed: bool,
    quoted: bool,
) -> Callable[[Sequence[str]], Iterator[Row]]:
    def rows(names: Sequence[str]) -> Iterator[Row]:
        places = [columns.index(name) for name in names]
        header = next(split)[1] if headed else None
        for number, row in split:
            if row == header:
                log.bad(number, "the header again", "the header comes again")
                continue
            if len(row) == len(columns):
                yield number, [row[place] for place in places]
                continue
            log.bad(
                number,
                WRONG_WIDTH,
                f"{len(row)} fields; the {'header' if headed else 'first line'} has "
                f"{len(columns)}. "
                + (
                    "Quote commas in texts"
                    if quoted
                    else "A tab in a text, or a quoted text over "
                    "several lines? Tabs separate and quotes mean nothing in TSV; save as CSV"
                ),
            )

    return rows


def _tsv_rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    for number, line in source.lines():
        if line:
            yield number, line.split("\t")


def _csv_rows(source: Source, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line that each begins at."""
    reader = csv.reader(
        (line + "\n" for _, line in source.lines()), delimiter=delimiter, strict=True
    )
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source.name}, line {line:,}: {error}; expected CSV with closed quotes"
        ) from error


def has_header(head: list[list[str]], asked: Sequence[str]) -> bool:
    """Whether the first row names the columns: one that was asked for, or one that is known."""
    first = [cell.strip() for cell in head[0]]
    names = [plain(cell) for cell in first]
    if any(name in first or plain(name) in names for name in asked if not name.isdecimal()):
        return True
    places = [
        place
        for place, name in enumerate(names)
        if name in KNOWN or name.rstrip("0123456789") in ("ending", "choice", "option")
    ]
    # A class may be called "question": the name of a column does not come again below it, unless
    # the whole header does.
    below = [row for row in head[1:] if len(places) < 2 or row != head[0]]
    return any(all(row[place : place + 1] != [head[0][place]] for row in below) for place in places)


def _guess(head: list[list[str]], kind: str, *, label: bool, pair: bool | None) -> dict[str, str]:
    """Roles of the columns of a file without a header; empty if its shape tells nothing."""
    width = len(head[0])
    columns = [[row[place].strip() for row in head if len(row) == width] for place in range(width)]
    if width == 4 and set(columns[1]) <= {"0", "1"} and all(map(_MARK.fullmatch, columns[2])):
        return {"text": "4", "label": "2"} if label else {"text": "4"}
    if not label:
        return {1: {"text": "1"}, 2: {"text": "1", "text2": "2"} if pair else {}}.get(width, {})
    is_label = _all_numbers if kind == "regression" else _recurs
    labels = [place for place in range(width) if is_label(columns[place])]
    if width not in (2, 3) or len(labels) != 1:
        return {}
    texts = [str(place + 1) for place in range(width) if place != labels[0]]
    roles = dict(zip(("text", "text2"), texts, strict=False))
    return {**roles, "label": str(labels[0] + 1)}


def _recurs(values: list[str]) -> bool:
    """Few short values, and the first, which a header would be, comes again."""
    return (
        values.count(values[0]) > 1
        and 2 * len(set(values)) <= len(values) + 1
        and max(map(len, values)) <= _MAX_CLASS_NAME
    )


def _all_numbers(values: list[str]) -> bool:
    try:
        [float(value) for value in values]
    except ValueError:
        return False
    return True
