"""Read multiple choice: tables like SWAG, HellaSwag and COPA (labels from 0) or RACE (from A)."""

from __future__ import annotations

import re
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.examples import ChoiceExample
from bertwright.labelled.file import File, Reader, Stream
from bertwright.labelled.source import BadValue, listed, shorten
from bertwright.labelled.tables.columns import Columns, plain
from bertwright.labelled.tables.table import Row, Table, read_text

_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d+)")


def read_choices(file: File) -> Stream:
    """Read a table of multiple-choice questions.

    The choices are either one column of lists, or several numbered columns with one choice each.
    """
    table = file.table()
    chosen, choices = file.chosen, _choices(table)
    target = file.label(table, "right choices", [*choices, *chosen.texts()])
    others = [*choices, target, chosen.text2]
    text = table.find(chosen.text, "premises", "--text", others)
    text2 = None if chosen.text2 is None else table.named(chosen.text2, "--text2")
    if text2 is None and chosen.text is None:
        text2 = table.known("second texts", "--text2", [*others, text])
    columns = Columns(text, text2, target)

    def make(row: Row, id_: str, line: int) -> ChoiceExample:
        first = read_text(row, text)
        second = read_text(row, text2) if row.get(text2) not in (None, "") else ""
        texts = _texts(row, choices)
        label = None if target is None else _label(row[target], texts, file.log.at(line))
        return ChoiceExample(first, texts, second, label, id_, line)

    examples = table.examples([*columns.names(), *choices], make)
    return file.stream(examples, columns, table, *choices)


def _choices(table: Table) -> list[str]:
    numbered: dict[str, dict[int, str]] = {}
    for column in table.columns:
        if match := _NUMBERED.fullmatch(plain(column)):
            numbered.setdefault(match[1], {})[int(match[2])] = column
    for columns in numbered.values():
        first, last = min(columns), max(columns)
        if first < 2 <= len(columns):
            if len(columns) != last - first + 1:
                raise DataError(
                    f"{table.name}: choices are missing among {listed([*columns.values()])}"
                )
            return [columns[number] for number in sorted(columns)]
    return [
        table.find(None, "choices", "ending0, ending1, ... (or choice, option), or a list in a")
    ]


def _texts(row: Row, columns: list[str]) -> tuple[str, ...]:
    cells = [row[name] for name in columns]
    if len(columns) == 1:
        if not isinstance(cells[0], list):
            came = f"{shorten(cells[0])} in the column {shorten(columns[0])}"
            raise BadValue("choices of a wrong form", came, "a list of texts")
        cells, columns = cells[0], columns * len(cells[0])
    if len(cells) < 2:
        raise BadValue("fewer than two choices", str(len(cells)), "two or more")
    return tuple(read_text({name: each}, name) for each, name in zip(cells, columns, strict=True))


def _label(value: Any, texts: tuple[str, ...], where: str) -> int:
    """Return the index of the right choice. It is an error if labels seem to count from 1."""
    name = str(value).strip().removesuffix(".0")
    number = int(name) if name.isdecimal() else -1
    if len(name) == 1 and name.isascii() and name.isalpha():
        number = ord(name.upper()) - ord("A")
    if number == len(texts) and name.isdecimal():
        raise DataError(
            f"{where}: the label {shorten(value)} is one more than the last of {number} choices, "
            "which count from 0; if the labels count from 1, subtract 1 from each"
        )
    if not 0 <= number < len(texts):
        expected = f"0 to {len(texts) - 1}, or a letter from A"
        raise BadValue("label is no choice", shorten(value), expected)
    return number


CHOICES = Reader(read_choices)
