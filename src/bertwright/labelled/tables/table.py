"""Detect the format of a labelled file, and read the formats that are tables.

Tables are TSV, CSV, JSON, JSON lines, Parquet and fastText's lines. The format is the one that
`--format` names, else that of the file's suffix (`FORMS`), else that of the first line: a file is
TSV or CSV without a suffix if the first line is a header with a chosen or known name (CSV needs
two). TSV without quoting is the default, because GLUE's files hold quote characters as text.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, get_args

from bertwright.config.task import Form
from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.label_studio import is_label_studio, rows_of_tasks
from bertwright.labelled.source import (
    HEAD_LINES,
    BadRowLog,
    BadValue,
    Rows,
    Source,
    open_source,
)
from bertwright.labelled.tables.columns import NAMES, is_known, plain
from bertwright.labelled.tables.guess import is_unknown_header
from bertwright.labelled.tables.parts import part_of
from bertwright.labelled.tables.quotes import split_csv, split_tsv
from bertwright.rows.lines import replace_surrogates
from bertwright.rows.open import name_of, open_bytes, suffix_of
from bertwright.rows.parquet import open_parquet, parquet_rows
from bertwright.rows.tables import csv_delimiter

E = TypeVar("E")
FORMS: dict[str, Form] = {f".{form}": form for form in get_args(Form) if form != "text"}
"""The format of each suffix."""
FORMS |= {".ndjson": "jsonl"}
FORMS |= dict.fromkeys((".conll03", ".bio", ".iob", ".iob2", ".bmes", ".bioes"), "conll")
Row = dict[Any, Any]
"""The values of a row by column name; None for a value that the row lacks."""
WRONG_WIDTH = "wrong number of fields"
_NAME = re.compile(r"\s?[\w#.-]+( [\w#.-]+)?\s?")
PREFIX = "__label__"
"""The prefix of labels in fastText's files."""
_LABEL_WORDS = re.compile(rf"(?<!\S){PREFIX}\S*\s*")
_MARK = re.compile(r"[*?#%]{0,3}")  # what linguists wrote before a sentence, nearly always "*"


@dataclass
class Table:
    """A file of rows, with columns that are found by name."""

    name: str
    columns: list[str]
    """The names in order; `1`, `2`, ... if the file has no header."""
    format: str
    """The name of the format, such as `TSV` or `JSON lines`."""
    rows: Callable[[Sequence[str]], Iterator[tuple[int, list[Any]]]]
    """Yields, for the given columns, the number of each row (its line or row, from 1) and its
    values. It can be called only once.
    """
    log: BadRowLog
    first: str = ""
    """The first line of a file without a header, for messages."""
    sample: Callable[[], list[list[Any]]] = list
    """Returns the values of all columns of the first rows, to detect the form of labels. `rows`
    yields these rows again.
    """
    guess: tuple[str, ...] = ()
    """Options that name the columns that are probably meant, for messages."""
    split: str | None = None
    """The column that says which rows are for training, and which for evaluation, if it is read."""
    parts: dict[int, str] = field(default_factory=dict)
    """The part of the data set (train, dev or test) of the row at each line; empty without
    `split`.
    """
    unread: tuple[str, ...] = ()
    """The columns that are not read; known when `read` was called."""

    def has(self, name: str) -> bool:
        """Return whether there is a column with this name, or with this number from 1."""
        named = name in self.columns or plain(name) in map(plain, self.columns)
        return named or (name.isdecimal() and 1 <= int(name) <= len(self.columns))

    def named(self, name: str, option: str) -> str:
        """Return the column that an option names, or numbers from 1 (even if there is a header).
        Capitalization may differ if only one column fits.
        """
        matches = [column for column in self.columns if plain(column) == plain(name)]
        if name in self.columns or len(matches) == 1:
            return name if name in self.columns else matches[0]
        if name.isdecimal() and 1 <= int(name) <= len(self.columns):
            return self.columns[int(name) - 1]
        raise self.error(f"no column {shorten(name)}", option)

    def error(self, what: str, option: str) -> DataError:
        """Return the error for a table that has `what`, with the option that names a column."""
        is_meant = option.split()[-1] in self.guess
        return DataError(
            f"{self.name} has {what}; it has {listed(self.columns)}{self.first}. Name one: "
            f"{option} COLUMN",
            self.guess if is_meant else (),
        )

    def known(self, what: str, option: str, used: Sequence[str | None] = ()) -> str | None:
        """Return the column with a known name that is not `used`. It is an error if several fit."""
        for group in chain.from_iterable(NAMES[each] for each in what.split(" or ")):
            matches = [each for each in self.columns if plain(each) in group and each not in used]
            if len(matches) > 1:
                raise self.error(f"several columns of {what} ({listed(matches)})", option)
            if matches:
                return matches[0]
        return None

    def find(
        self, chosen: str | None, what: str, option: str, used: Sequence[str | None] = ()
    ) -> str:
        """Return the chosen column, or the `known` one. It is an error if there is none."""
        column = self.known(what, option, used) if chosen is None else self.named(chosen, option)
        if column is None:
            names = [*chain(*NAMES[what.partition(" or ")[0]])]
            raise self.error(f"no column of {what} ({', '.join(names[:4])}, ...)", option)
        return column

    def id(self, used: Sequence[str]) -> str | None:
        """Return the unused column that identifies rows, or None."""
        free = {plain(name): name for name in reversed(self.columns) if name not in used}
        return next((free[name] for name in NAMES["ids"][0] if name in free), None)

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """Return the rows with these columns, and note which others there are."""
        self.unread = tuple(name for name in self.columns if name and name not in names)
        return self.rows(names)

    def examples(
        self, columns: Sequence[str | None], make: Callable[[Row, str, int], E | None]
    ) -> Iterator[E]:
        """Return an iterator of what `make` returns for each row, without rows for which it is
        None.

        `make` is given the values of `columns`, the row's id ("" if it has none) and its line. A
        row for which it raises `BadValue` is a bad row, unless all of `columns` are empty there and
        the log skips such rows.
        """
        names = [name for name in columns if name is not None]
        id_ = self.id(names)
        names += [id_] if id_ else []
        split = None if self.split in names else self.split
        return self._examples(
            names, id_, split, self.read([*names, split] if split else names), make
        )

    def _examples(
        self,
        names: Sequence[str],
        id_: str | None,
        split: str | None,
        rows: Iterator[tuple[int, list[Any]]],
        make: Callable[[Row, str, int], E | None],
    ) -> Iterator[E]:
        for line, values in rows:
            part = "" if split is None else part_of(values.pop())
            row: Row = dict(zip(names, values, strict=True))
            identifier = row.get(id_)
            try:
                if part is None:
                    expected = "train, dev or test"
                    raise BadValue(f"unknown value in the column {split}", "", expected)
                example = make(row, "" if identifier is None else str(identifier), line)
            except BadValue as error:
                read = (value for name, value in row.items() if name != id_)
                is_empty = not any(str(value or "").strip() for value in read)
                if is_empty and self.log.skips_empty:
                    self.log.skipped.add(line, "empty row")
                else:
                    self.log.bad(line, *error.args)
                continue
            if example is not None:
                if part:
                    self.parts[line] = part
                yield example


def read_text(row: Row, column: str | None) -> str:
    """Return a text of a row; raise BadValue if it is empty, missing or not a text."""
    value = row[column]
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        value = str(value)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise BadValue("empty text", f"column {shorten(column)}", "a text")
    if not isinstance(value, str):
        came = f"a {type(value).__name__} in the column {shorten(column)}"
        raise BadValue("text of a wrong type", came, "a string")
    return value


def open_form(
    path: Path | Rows, named: Sequence[str], form: Form | None = None
) -> tuple[Source, Form]:
    """Open a file and detect its format: the one given, else that of its suffix or first line, else
    `text`.
    """
    if isinstance(path, Rows):
        return Source(path.name, Path(path.name), json=path.rows, report=path.report), "json"
    by_suffix = FORMS.get(suffix_of(path))
    if "parquet" in (form, None if form else by_suffix):
        form = "parquet"
        return Source(name_of(path), path), form
    source = open_source(path)
    source.quotes = form != "tsv"
    if form in (None, "tsv") and source.separator:
        form = "csv"
    return source, form or by_suffix or _by_first_line(source.first, named)


def _by_first_line(line: str, named: Sequence[str]) -> Form:
    if line.lstrip().startswith(PREFIX):
        return "fasttext"
    if line.lstrip().startswith(('{"', "[{", "{ ")) or line.strip() in ("{", "["):
        return "json"
    names, cells = {*map(plain, named)}, line.split("\t")
    if len(cells) > 1:
        is_table = any(is_known(cell) or plain(cell) in names for cell in cells)
        return "tsv" if is_table or any(map(str.isdecimal, named)) or _is_cola(cells) else "text"
    if plain(line) in names:
        return "tsv"
    cells = next(csv.reader([line], delimiter=csv_delimiter(line)), [])
    known = [cell for cell in cells if is_known(cell) or plain(cell) in names]
    return "csv" if len(known) > 1 and all(map(_NAME.fullmatch, cells)) else "text"


def read_table(source: Source, form: Form, named: Sequence[str], log: BadRowLog) -> Table:
    """Return the table of a file. `named` are the columns that options name or that training used.

    Raises:
        DataError: the file is not such a table.
        MissingExtra: the format needs pyarrow, which is not installed.
    """
    if form == "parquet":
        return _parquet(source.path, log)
    if form in ("json", "jsonl"):
        return _objects(source, form, log)
    if form == "fasttext":
        return _fasttext(source, log)
    return _delimited(source, form, named, log)


def _fasttext(source: Source, log: BadRowLog) -> Table:
    """Read fastText's lines: words that begin with `__label__` are labels, the others are the
    text.
    """

    def rows(names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        for number, line in source.lines():
            words = line.split()
            if not words:
                continue
            labels = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
            text = _LABEL_WORDS.sub("", line).strip()
            row = {"text": text, "label": labels[0] if len(labels) == 1 else labels}
            yield number, [row[name] for name in names]

    return Table(source.name, ["text", "label"], "fastText's lines", rows, log)


def plain_text(source: Source, pair: bool, tabs: bool, log: BadRowLog) -> Table:
    """Read one text from each line, or a pair of texts separated by a tab. `tabs` allows tabs in a
    text.
    """
    if not tabs and not pair and "\t" in source.first:
        raise DataError(
            f"{source.name} has a tab in its first line, but no header. Name the column: --text 1; "
            "or read each whole line as a text: --format text"
        )

    def rows(names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        for number, line in source.lines():
            texts = line.split("\t") if pair else [line]
            if not line.strip():
                log.skipped.add(number, "empty line")
            elif len(texts) == 1 + pair:
                yield number, [texts[columns.index(name)] for name in names]
            else:
                expected = "two texts separated by one tab, because the model was trained on pairs"
                log.bad(number, "no pair of texts", "", expected)

    columns = ["text", "text2"] if pair else ["text"]
    return Table(source.name, columns, "plain text", rows, log)


def _delimited(source: Source, form: Form, named: Sequence[str], log: BadRowLog) -> Table:
    def split_all(lines: Iterator[str], log: BadRowLog) -> Iterator[tuple[int, list[str]]]:
        if form == "csv":
            return split_csv(lines, log, source.separator, source.head)
        return split_tsv(lines, log, quotes=source.quotes)

    def head() -> list[list[str]]:
        """Return the complete rows of the first lines, including the header."""
        first_rows: list[list[str]] = []
        with suppress(DataError):  # the first lines may end inside a row
            first_rows += (row for _, row in split_all(iter(source.head), BadRowLog(source.name)))
        return first_rows

    split = split_all((line for _, line in source.lines()), log)
    first = next(split)
    columns, header = [cell.strip() for cell in first[1]], None
    format, shown = form.upper(), ""
    if _has_header(columns, named):
        header = first[1]
        _refuse_doubled(columns, source.name)
    elif _is_cola(columns):
        columns, format = ["source", "label", "mark", "sentence"], "GLUE's CoLA"
    elif len(columns) > 1 and is_unknown_header(columns, head()[1:]):
        header = first[1]
        log.warn(
            f"the first line is read as a header, because its cells {listed(columns)} stand above "
            "values of another kind"
        )
    else:
        columns = [str(number) for number in range(1, len(columns) + 1)]
        format += " without a header"
        shown = f" by number, because its first line, {listed(first[1])}, has no known name"

    def rows(wanted: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        indices = [columns.index(name) for name in wanted]
        for number, row in split if header else chain([first], split):
            if row == header:
                log.bad(number, "the header again", "", "one header")
            elif len(row) == len(columns):
                yield number, [row[index] for index in indices]
            else:
                expected = f"{len(columns)} as in the first line; separators in texts need quotes"
                log.bad(number, WRONG_WIDTH, str(len(row)), expected)

    def sample() -> list[list[Any]]:
        return [row for row in head() if len(row) == len(columns) and row != header]

    return Table(source.name, columns, format, rows, log, shown, sample)


def _has_header(first: Sequence[str], named: Sequence[str]) -> bool:
    """Return whether the first row is a header: it contains a chosen or a known name. If columns
    are chosen by number, more than half of its names must be known.
    """
    names = {*map(plain, first)}
    if any(name in first or plain(name) in names for name in named if not name.isdecimal()):
        return True
    known = sum(map(is_known, first))
    return 2 * known > len(first) if any(map(str.isdecimal, named)) else known > 0


def _is_cola(first: Sequence[str]) -> bool:
    return len(first) == 4 and first[1] in ("0", "1") and bool(_MARK.fullmatch(first[2]))


def _refuse_doubled(columns: Sequence[str], name: str) -> None:
    doubled = {column for column in columns if column and list(columns).count(column) > 1}
    if doubled:
        raise DataError(f"{name}: the header names {listed(sorted(doubled))} twice; rename one")


def _json_value(source: Source, log: BadRowLog) -> Any:
    """Return the whole value of a JSON file, or None if the file is JSON lines."""
    if source.json is not None:
        return source.json
    value = _parse(source.first, log)
    if isinstance(value, dict) and not isinstance(value.get("data"), list):
        return None
    if isinstance(value, list) and value and not isinstance(value[0], dict | list):
        return None
    source.json = value = _parse("\n".join(line for _, line in source.lines()), log)
    if isinstance(value, Exception):
        expected = "expected an array of objects, or an object a line"
        raise DataError(f"{source.name} cannot be read as JSON: {value}; {expected}")
    return value


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shorten(max(keys, key=keys.count))} comes twice")
    return row


def _parse(line: str, log: BadRowLog) -> Any:
    """Return the parsed value, or the error. Lone surrogates become U+FFFD, with one warning a
    file.
    """
    try:
        value = json.loads(line, object_pairs_hook=_no_doubles)
        if "\\ud" in line or "\\uD" in line:
            whole = json.dumps(value, ensure_ascii=False)
            if (mended := replace_surrogates(whole)) is not whole:
                value = json.loads(mended)
                log.warn("lone surrogates were replaced by U+FFFD")
        return value
    except (ValueError, RecursionError) as error:
        return error


def _objects(source: Source, form: Form, log: BadRowLog) -> Table:
    """Read an array of objects, `{"data": [...]}`, or one object a line; the keys are the columns.
    Arrays in place of objects have columns by number.
    """
    begin = source.json is None and source.first.strip()
    lines = form == "jsonl" and not (begin and (begin[0] == "[" or begin == "{"))
    whole = value = None if lines else _json_value(source, log)
    values: Iterator[tuple[int, Any]]
    if value is None:
        values = ((n, _parse(line, log)) for n, line in source.lines() if line.strip())
    else:
        log.unit = "row"
        whole, value = value, value.get("data") if isinstance(value, dict) else value
        values = enumerate(value if isinstance(value, list) else [], 1)
    values = ((number, _by_number(row)) for number, row in values)
    head = list(islice(values, HEAD_LINES))
    export = any(is_label_studio(row) for _, row in head)
    if export:
        head, values = rows_of_tasks(chain(head, values), log), iter(())
    columns = list(dict.fromkeys(key for _, row in head if isinstance(row, dict) for key in row))
    _refuse_parts(whole if whole else head[0][1] if len(head) == 1 else None, log.name)
    if not columns:
        expected = 'expected {"text": "...", "label": "..."} a line, or an array of such'
        raise DataError(f"{log.name} has no JSON object; {expected}")

    def rows(names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        for number, row in chain(head, values):
            if isinstance(row, dict):
                yield number, [row.get(name) for name in names]
            else:
                wrong = row if isinstance(row, Exception) else f"a {type(row).__name__}"
                log.bad(number, "not a JSON object", str(wrong), "an object")

    def sample() -> list[list[Any]]:
        return [[row.get(name) for name in columns] for _, row in head if isinstance(row, dict)]

    title = "JSON lines" if value is None else "JSON"
    title += " of Label Studio" if export else ""
    return Table(log.name, columns, title, rows, log, sample=sample)


def _refuse_parts(value: Any, name: str) -> None:
    """Raise DataError for a JSON object of data sets: `{"train": [...], "test": [...]}`."""
    if not isinstance(value, dict):
        return
    parts = [key for key, rows in value.items() if part_of(key) and isinstance(rows, list)]
    if parts:
        code = "import json; [json.dump(rows, open(part + '.json', 'w')) for part, rows in "
        code += f"json.load(open({name!r})).items()]"
        files = " ".join(
            f"--{'train' if part_of(part) == 'train' else 'dev'} {part}.json" for part in parts[:2]
        )
        raise DataError(
            f"{name} holds several data sets: {listed(parts)}. Write each to a file of its own, "
            f'for {files}: python -c "{code}"'
        )


def _by_number(row: Any) -> Any:
    """Return an array of texts and numbers as a row with columns by number, and spaCy's
    `["text", {"entities": [...]}]` as one with the columns text and entities.
    """
    if not isinstance(row, list) or len(row) < 2 or not isinstance(row[0], str):
        return row
    if len(row) == 2 and isinstance(row[1], dict) and "entities" in row[1]:
        return {"text": row[0], "entities": row[1]["entities"]}
    if any(isinstance(value, list | dict) for value in row):
        return row
    return {str(number): value for number, value in enumerate(row, 1)}


def _parquet(path: Path, log: BadRowLog) -> Table:
    """Read Parquet; class indices written by `datasets` become class names."""
    log.unit = "row"
    with open_bytes(path) as stream, open_parquet(stream, log.name) as file:
        schema = file.schema_arrow
    _refuse_doubled(schema.names, log.name)
    classes = _class_names((schema.metadata or {}).get(b"huggingface", b"{}"))

    def rows(names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        wanted = list(dict.fromkeys(names))
        with open_bytes(path) as stream, open_parquet(stream, log.name) as file:
            for number, row in enumerate(parquet_rows(file, wanted, share=True), 1):
                by_name = dict(zip(wanted, row, strict=True))
                yield number, [_named(by_name[name], classes.get(name)) for name in names]

    def sample() -> list[list[Any]]:
        return [values for _, values in islice(rows(schema.names), HEAD_LINES)]

    return Table(log.name, list(schema.names), "Parquet", rows, log, sample=sample)


def _class_names(metadata: bytes) -> dict[str, list[str]]:
    """Return each column's class names from the metadata that `datasets` adds to the schema."""
    try:
        features = json.loads(metadata)["info"]["features"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # another program wrote the schema
    kinds = {name: each.get("feature", each) for name, each in features if isinstance(each, dict)}
    named = {name: each.get("names") for name, each in kinds.items() if isinstance(each, dict)}
    return {name: names for name, names in named.items() if names}


def _named(value: Any, names: list[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if value == -1:
        return value  # no label
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
