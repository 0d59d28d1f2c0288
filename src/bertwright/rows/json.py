"""Read JSON and JSON lines as tables whose columns are the keys of the objects.

An array of texts and numbers in place of an object has columns by number, and spaCy's
`["text", {"entities": [...]}]` the columns text and entities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal

from bertwright.errors import DataError, listed, shorten
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.columns import Table
from bertwright.rows.lines import HEAD_LINES, ByteCounts, TextLines, replace_surrogates
from bertwright.rows.parts import part_of

NO_OBJECT = "not a JSON object"
Values = Iterator[tuple[int, Any]]
"""The line or number of each value, and the value; an exception for a line that is no JSON."""


def json_table(
    lines: TextLines, form: Literal["json", "jsonl"], log: BadRowLog, counts: ByteCounts
) -> Table:
    """Return the table of an array of objects, of `{"data": [...]}`, or of an object a line.

    JSON lines may also hold one array, and JSON an object a line; whichever the first line shows.
    """
    begin = lines.first.strip()
    if form == "jsonl" and begin[0] != "[" and begin != "{":
        return _of_lines(lines, log, counts)
    value = parse_json(lines.first, ByteCounts())
    is_whole = isinstance(value, Exception) or (
        isinstance(value.get("data"), list)
        if isinstance(value, dict)
        else isinstance(value, list) and (not value or isinstance(value[0], dict | list))
    )
    if not is_whole:
        return _of_lines(lines, log, counts)
    value = parse_json("\n".join(line for _, line in lines.numbered()), counts)
    if isinstance(value, Exception):
        raise DataError(
            f"{lines.name} cannot be read as JSON: {value}; expected an array of objects, or an "
            "object a line"
        )
    _refuse_parts(value, log.name)
    rows = value.get("data") if isinstance(value, dict) else value
    return objects_table(rows if isinstance(rows, list) else [], log)


def is_json_lines(head: bytes) -> bool:
    """Return whether a stream without a name begins like a JSON object, with `{"`."""
    return re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"', head) is not None


def objects_table(rows: Sequence[Any], log: BadRowLog) -> Table:
    """Return the table of objects in memory."""
    log.unit = "row"
    return _table(enumerate(map(_by_number, rows), 1), "JSON", log)


def _of_lines(lines: TextLines, log: BadRowLog, counts: ByteCounts) -> Table:
    values = (
        (number, _by_number(parse_json(line, counts)))
        for number, line in lines.numbered()
        if line.strip()
    )
    head = list(islice(values, HEAD_LINES))
    if len(head) == 1:
        _refuse_parts(head[0][1], log.name)
    return _table(chain(head, values), "JSON lines", log)


def _table(values: Values, format: str, log: BadRowLog) -> Table:
    head = list(islice(values, HEAD_LINES))
    columns = list(dict.fromkeys(key for _, row in head if isinstance(row, dict) for key in row))
    if not columns:
        place, wrong = log.name, ""
        for number, row in head[:1]:
            place, wrong = log.at(number), f": {_shown(row)}"
        expected = 'expected {"text": "...", "label": "..."} a line, or an array of such'
        raise DataError(f"{place} has no JSON object{wrong}; {expected}")

    def rows(names: Sequence[str], complete: bool = False) -> Iterator[tuple[int, list[Any]]]:
        for number, row in chain(head, values):
            if not isinstance(row, dict):
                log.bad(number, NO_OBJECT, _shown(row), "an object")
            elif complete and (missing := next((n for n in names if n not in row), None)):
                log.bad(number, f"no column {shorten(missing)}", "", "it in every row")
            else:
                yield number, [row.get(name) for name in names]

    def sample() -> list[list[Any]]:
        return [[row.get(name) for name in columns] for _, row in head if isinstance(row, dict)]

    return Table(log.name, columns, format, rows, log, sample)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Exception) else f"a {type(value).__name__}"


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shorten(max(keys, key=keys.count))} comes twice")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_no_doubles)


def parse_json(text: str, counts: ByteCounts) -> Any:
    """Return the value of a text, or the error; lone surrogates become U+FFFD and are counted."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:  # ValueError alone: a number without end
        return error
    if "\\u" in text and ("\\ud" in text or "\\uD" in text):
        whole = json.dumps(value, ensure_ascii=False)
        if (mended := replace_surrogates(whole)) is not whole:
            counts.invalid_utf8 += mended.count("\ufffd") - whole.count("\ufffd")
            return json.loads(mended)
    return value


def _by_number(row: Any) -> Any:
    """Return an array as an object, if it is one of texts and numbers, or spaCy's."""
    if not isinstance(row, list) or len(row) < 2 or not isinstance(row[0], str):
        return row
    if len(row) == 2 and isinstance(row[1], dict) and "entities" in row[1]:
        return {"text": row[0], "entities": row[1]["entities"]}
    if any(isinstance(value, list | dict) for value in row):
        return row
    return {str(number): value for number, value in enumerate(row, 1)}


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
